# SPDX-License-Identifier: Apache-2.0
"""Select websites by domain, by pattern such as ``*.example.com``, or by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_analytics.api.checks import invalid, nearest, short_repr, text_list
from airflow_provider_analytics.api.domains import (
    MAX_PATTERNS,
    domain_key,
    is_pattern,
    matches,
    spellings,
)
from airflow_provider_analytics.api.entries import without_comment
from airflow_provider_analytics.api.fields import website_of
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import first_of, readable

_MAX_NAMED = 20
#: Domains, patterns such as ``*.example.com``, or ids.
Selectors = tuple[str, ...]


def parse_selectors(field: str, value: Iterable[str | int] | str | int) -> Selectors:
    """Parse selectors: domains, patterns such as ``*.example.com``, or ids.

    :param field: name of the argument, for messages.
    :param value: a list, text with one selector per line, or a single id.
    :raises ValueError: if the value is none of these, or a selector is blank or neither text nor a number.
    """
    if isinstance(value, str):
        listed = text_list(field, value)
        value = list(filter(None, map(without_comment, value.splitlines()))) if listed is None else listed
    elif isinstance(value, int):
        value = [value]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise invalid(field, value, "a list of domains, patterns, and ids")
    selectors = []
    for selector in value:
        if isinstance(selector, bool) or not isinstance(selector, (str, int)) or not str(selector).strip():
            raise invalid(field, selector, "a domain, a pattern such as *.example.com, an id")
        selectors.append(str(selector).strip())
    number = sum(map(is_pattern, selectors))
    if number > MAX_PATTERNS:
        raise ValueError(f"{field} has {number:,} patterns. Allowed: at most {MAX_PATTERNS:,}")
    return tuple(selectors)


def select(records: Iterable[Record], selectors: Iterable[str]) -> tuple[set[str], list[str]]:
    """Return the ids of the websites that match any selector, and the selectors that match no website.

    For example, ``select([{"id": 7, "domain": "www.example.com"}], ["*.example.com", "9"])`` returns
    ``({"7"}, ["9"])``.

    :raises ValueError: if a record without a domain can match a selector.
    """
    ids: set[str] = set()
    by_domain: dict[str, set[str]] = {}
    nameless = ""
    for record in records:
        domain, website_id = website_of(record)
        ids.add(website_id)
        if domain:
            by_domain.setdefault(domain_key(domain), set()).add(website_id)
        else:
            nameless = nameless or website_id
    chosen: set[str] = set()
    unmatched = []
    for selector in selectors:
        found = set(by_domain.get(domain_key(selector), ()))
        if selector in ids:
            found.add(selector)
        if is_pattern(selector):
            for domain, same_domain in by_domain.items():
                if matches(selector, domain):
                    found |= same_domain
        if nameless and not selector.isdigit() and (not found or is_pattern(selector)):
            raise ValueError(
                f"website {nameless} has no domain, so it is unknown whether {selector!r} means it. Allowed: ids"
            )
        chosen |= found
        if not found:
            unmatched.append(selector)
    return chosen, unmatched


def raise_unless_found(records: Sequence[Record], text: str) -> None:
    """Raise :class:`ValueError` if a search found a website whose domain does not contain the text.

    It is not documented how the search matches, and a service can ignore it. Then all websites would be changed.
    """
    for record in records:
        domain, website_id = website_of(record)
        if not any(text.casefold() in spelling.casefold() for spelling in spellings(domain)):
            raise ValueError(
                f"search={text!r} found {short_repr(domain)} (id {website_id}), whose domain does not contain it: "
                f"the service might ignore the search. Use a pattern instead: websites=['*{text}*']"
            )


def similar_domain(selector: str, records: Sequence[Record]) -> str:
    """Return the website whose domain is most similar to a selector, as the end of a text; empty if none is similar."""
    near = nearest(selector, [website_of(record)[0] for record in records], cutoff=0.8)
    if near is None:
        return ""
    return f" (similar: {readable(near)})"


def raise_unmatched(unmatched: Sequence[str]) -> None:
    """Raise :class:`GuardError` with the selectors that match no website, if there are any.

    Otherwise a typing error in ``except_websites`` would change the website that it should exclude.
    """
    if unmatched:
        named = first_of(unmatched, _MAX_NAMED, "; ", show=readable)
        raise GuardError(
            f"No website matches {named}.", "Correct the domain, pattern, or id. No changes were sent.", "no_match"
        )
