"""Select websites by domain, by glob such as ``*.example.com``, or by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_analytics.api.checks import refused, short_repr, text_list
from airflow_provider_analytics.api.domains import domain_key, is_pattern, matches, spellings
from airflow_provider_analytics.api.entries import without_comment
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.reconcile.maintained import Listed
from airflow_provider_analytics.reconcile.plan import website_of

_MAX_NAMED = 20
_MAX_CHARACTERS = 120
#: Domains, globs such as ``*.example.com``, or ids.
Selectors = tuple[str, ...]


def parse_selectors(field: str, value: Iterable[str | int] | str | int) -> Selectors:
    """Parse selectors: domains, globs such as ``*.example.com``, or ids.

    :param field: name of the argument, for messages.
    :param value: a list, text with one selector per line, or a single id.
    :raises ValueError: if the value is none of these, or a selector is blank or neither text nor a number.
    """
    if isinstance(value, str):
        found = text_list(field, value)
        value = [line for line in map(without_comment, value.splitlines()) if line] if found is None else found
    elif isinstance(value, int):
        value = [value]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise refused(field, value, "a list of domains, globs and ids")
    selectors = []
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (str, int)) or not str(one).strip():
            raise refused(field, one, "a domain, a glob such as *.example.com, an id")
        selectors.append(str(one).strip())
    return tuple(selectors)


def exact_selectors(*groups: Selectors) -> Selectors | None:
    """Return all selectors, or None if one of them is a glob, which needs the complete list."""
    selectors = tuple(one for group in groups for one in group)
    return None if any(map(is_pattern, selectors)) else selectors


def select(records: Sequence[Mapping[str, Any]], selectors: Sequence[str]) -> tuple[set[str], list[str]]:
    """Return the ids of the websites that match any selector, and the selectors that match no website.

    :raises ValueError: if a record without a domain may match a selector.
    """
    by_name: dict[str, set[str]] = {}
    by_domain: dict[str, set[str]] = {}
    nameless = ""
    for record in records:
        domain, website_id = website_of(record)
        nameless = nameless or ("" if domain else website_id)
        by_name.setdefault(website_id, set()).add(website_id)
        if domain:
            by_domain.setdefault(domain_key(domain), set()).add(website_id)
    chosen: set[str] = set()
    unmatched = []
    for selector in selectors:
        pattern = domain_key(selector)
        found = by_name.get(selector, set()) | by_domain.get(pattern, set())
        if is_pattern(pattern):
            found = found.union(*(ids for domain, ids in by_domain.items() if matches(selector, domain)))
        if nameless and not selector.isdigit() and (not found or is_pattern(pattern)):
            raise ValueError(
                f"website {nameless} has no domain, so it is unknown whether {selector!r} means it; allowed: ids"
            )
        chosen |= found
        if not found:
            unmatched.append(selector)
    return chosen, unmatched


def choose(
    records: Sequence[Mapping[str, Any]],
    websites: Selectors | None,
    except_websites: Selectors,
    *,
    allow_no_match: bool = False,
    argument: str = "websites",
) -> list[Mapping[str, Any]]:
    """Return the records that ``websites`` selects (None: all), without those that ``except_websites`` selects.

    :param argument: name of the argument that contains ``websites``, for messages.
    :raises GuardError: if a selector matches no website, or ``websites`` is empty, unless ``allow_no_match``. Otherwise
        a typing error in ``except_websites`` would change the website that it should exclude.
    """
    chosen = {website_of(record)[1] for record in records}
    unmatched = []
    if websites is not None:
        chosen, missing = select(records, websites)
        unmatched += [f"{argument}: {one!r}" for one in missing]
        unmatched += [] if websites else [f"{argument}: an empty list"]
    spared, missing = select(records, except_websites)
    unmatched += [f"except_websites: {one!r}" for one in missing]
    raise_unmatched(unmatched, allow_no_match=allow_no_match)
    chosen -= spared
    return [record for record in records if website_of(record)[1] in chosen]


def further_lists(
    records: Sequence[Mapping[str, Any]], per_website: Mapping[str, Listed], *, allow_no_match: bool = False
) -> dict[str, list[Listed]]:
    """Return the lists that ``per_website`` (selector to list) adds to the common one, by website id.

    :raises GuardError: if a selector matches none of the records, unless ``allow_no_match``.
    """
    extra: dict[str, list[Listed]] = {}
    unmatched = []
    for selector, listed in per_website.items():
        found, missing = select(records, [selector.strip()])
        unmatched += [f"per_website: {one!r}" for one in missing]
        for website_id in found:
            extra.setdefault(website_id, []).append(listed)
    raise_unmatched(unmatched, allow_no_match=allow_no_match)
    return extra


def raise_unless_found(records: Sequence[Mapping[str, Any]], text: str) -> None:
    """Raise :class:`ValueError` if a search found a website whose domain does not contain the text.

    Search matching is not documented, and a service may ignore the search. Then all websites would be changed.
    """
    for record in records:
        domain, website_id = website_of(record)
        if not any(text.casefold() in one.casefold() for one in spellings(domain)):
            raise ValueError(
                f"search={text!r} found {short_repr(domain)} (id {website_id}), whose domain does not contain it: "
                f"the service may ignore the search. Use a pattern instead: websites=['*{text}*']"
            )


def raise_unmatched(unmatched: Sequence[str], *, allow_no_match: bool) -> None:
    """Raise :class:`GuardError` with the selectors that match no website, unless ``allow_no_match``."""
    if unmatched and not allow_no_match:
        more = f"; and {len(unmatched) - _MAX_NAMED:,} more" if len(unmatched) > _MAX_NAMED else ""
        listed = "; ".join(readable(one, _MAX_CHARACTERS) for one in unmatched[:_MAX_NAMED])
        raise GuardError(
            f"No website matches {listed}{more}.", "Correct the domain, pattern or id. Nothing was sent.", "no_match"
        )
