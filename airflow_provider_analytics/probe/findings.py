"""Pure functions that derive the findings from the responses: a value of the table, or None.

A finding contains only counts, statuses, types and documented names, and never a value of the service.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api import dialect, redaction
from airflow_provider_analytics.api.dialect import Answer
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import without_comment
from airflow_provider_analytics.api.fields import LINE_FIELDS, RECORD_FIELDS
from airflow_provider_analytics.exceptions import UnexpectedResponseError
from airflow_provider_analytics.probe.seen import GUESSES, Listed, Seen, decoded, lists_in
from airflow_provider_analytics.probe.unknowns import FIRST_WEBSITE, UNKNOWNS, Effect, Unknown


@dataclass(frozen=True)
class Finding:
    """The result for one question.

    :param unknown: the row of the table.
    :param value: name of one of its values; None: reads cannot determine it.
    :param seen: the evidence, as a phrase.
    :param extras: extras to set, in addition to those already set.
    """

    unknown: Unknown
    value: str | None
    seen: str
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effect(self) -> Effect | None:
        """How the package copes with the value; None if unknown. An extra that is already set counts as handled."""
        if self.value is None:
            return None
        effect = self.unknown.value(self.value).effect
        return "handled" if effect == "extra" and not self.extras else effect


@dataclass(frozen=True)
class _Result:
    value: str | None
    seen: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)


_CHANGED = _Result(None, "the list changed during the probe")
_NO_ROWS = _Result(None, "there are no websites")


def findings(seen: Seen) -> list[Finding]:
    """Return a finding for each question of the table, in the same order."""
    found = []
    for unknown in UNKNOWNS:
        result = (
            _EVALUATORS[unknown.name](seen) if unknown.name in _EVALUATORS else _Result(None, FIRST_WEBSITE.lower())
        )
        extras = {
            name: value for name, value in result.extras.items() if str(getattr(seen.settings, name)) != str(value)
        }
        found.append(Finding(unknown, result.value, result.seen, extras))
    return found


# Lists


def _rows(seen: Seen) -> _Result:
    newest = seen.newest
    if newest is None or newest.page is None:
        return _Result(None, "no list")
    needed = newest.key or seen.settings.list_key
    if needed and _is_readable_without_extra(newest):
        needed = None
    if needed:
        count = len(list(lists_in(newest.document)))
        return _Result("one of several lists", f"{count} lists of objects", {"list_key": needed})
    if isinstance(newest.document, list):
        return _Result("bare array")
    document = newest.document if isinstance(newest.document, dict) else {}
    if isinstance(document.get("data"), list):
        return _Result("data")
    inner = document.get("data")
    return _Result("data.data" if isinstance(inner, dict) and isinstance(inner.get("data"), list) else "another key")


def _is_readable_without_extra(found: Listed) -> bool:
    try:
        page = dialect.page(found.answer, "")
    except UnexpectedResponseError:
        return False
    return [row.get("id") for row in page.rows] == [row.get("id") for row in found.rows]


def _list_changed(seen: Seen) -> bool:
    ten, again = seen.ten, seen.again
    if ten is None or again is None or ten.page is None or again.page is None:
        return True
    return (ten.ids, ten.page.total) != (again.ids, again.page.total)


def _expected_second_page(seen: Seen) -> list[str]:
    """Return the ids expected on the second page of ten, from the page of 100; empty if that page is too short."""
    if seen.ten is None or seen.newest is None:
        return []
    size = len(seen.ten.ids)
    return seen.newest.ids[size : 2 * size]


def _pages(seen: Seen) -> _Result:
    if seen.ten is None or not seen.ten.rows:
        return _NO_ROWS if seen.ten is not None else _Result(None, "no page of 10")
    if _list_changed(seen):
        return _CHANGED
    ten, second, newest = seen.ten, seen.second, seen.newest
    if newest is not None and newest.ids[: len(ten.ids)] != ten.ids and ten.ids[: len(newest.ids)] != newest.ids:
        return _Result("another page than requested", "the first pages of 10 and of 100 differ")
    if seen.parameter is None or seen.found_by == "" or (second is None and seen.found_by == "assumed"):
        return _Result(None, "all websites are on one page")
    if second is None:
        return _Result(None, "no second page")
    expected = _expected_second_page(seen)
    works = bool(second.rows) and set(second.ids).isdisjoint(ten.ids)
    if not second.rows and not expected:
        return _Result(None, "all websites are on one page")
    if works and expected and second.ids[: len(expected)] != expected[: len(second.ids)]:
        return _Result("another page than requested", "the second page of 10 is not rows 11 to 20")
    if not works:
        return _no_second_page(seen)
    is_page = seen.parameter == dialect.PAGE_PARAMETER
    extras = {"page_parameter": seen.parameter}
    if seen.found_by == "guessed":
        if seen.parameter == "offset":
            return _Result("cursor or offset, not linked by name", "offset=10 returns rows 11 to 20")
        return _Result("another parameter, not linked by name", "tried", extras)
    is_linked = seen.found_by == "link"
    is_number = seen.base is not None
    if seen.found_by == "link" and not is_number:
        return _Result("cursor or offset, linked by name", "the value in the links is not a page number")
    if seen.found_by == "link elsewhere" and not is_number:
        return _Result("cursor or offset, not linked by name", f"linked {seen.link_place}")
    if not is_page:
        if is_linked and not seen.settings.page_parameter:
            return _Result("another parameter, linked by name", "taken from the links")
        return _Result("another parameter, not linked by name", seen.link_place or "taken from the extra", extras)
    if seen.base is None:
        return _Result(None, "`page` selects pages; the number of the first one is unknown")
    return _Result(f"page, from {seen.base}", "the second page of 10 is rows 11 to 20")


def _no_second_page(seen: Seen) -> _Result:
    ten, second, third = seen.ten, seen.second, seen.third
    repeated = ten is not None and second is not None and second.ids == ten.ids
    if repeated and third is not None and third.rows and ten is not None and third.ids != ten.ids:
        return _Result("another page than requested", "page 3 is rows 11 to 20")
    if repeated and seen.found_by == "link":
        return _Result("nothing", "the service links pages, but returns the first one again")
    status = "" if second is None or second.rows else f" (status {second.answer.status})"
    tried = ", ".join(f"`{name}`" for name in (dialect.PAGE_PARAMETER, *GUESSES))
    return _Result(None, f"{tried} select nothing{status}; set `page_parameter` to the right name")


def _links(seen: Seen) -> _Result:
    if seen.link_place:
        return _Result(seen.link_place)
    pages = [found.page for found in (seen.ten, seen.newest) if found is not None and found.page is not None]
    if any(page.following is not None or page.first is not None for page in pages):
        return _Result("by name")
    if seen.ten is None or seen.newest is None or not _has_more(seen):
        return _Result(None, "no other page was found")
    return _Result("nowhere")


def _page_number(seen: Seen) -> _Result:
    if seen.ten is None or seen.ten.page is None or seen.newest is None or not seen.newest.rows:
        return _NO_ROWS
    first = seen.ten.page.current_page
    if first is None:
        return _Result("none")
    second = seen.second.page.current_page if seen.second is not None and seen.second.page is not None else None
    if seen.base is None or second is None or _pages(seen).value in (None, "nothing", "another page than requested"):
        # Without a second page, both 0 and 1 can be the number of the first page.
        return _Result(None, "no second page") if first in (0, 1) else _Result("another one", "of the first page")
    return _Result("its own" if (first, second) == (seen.base, seen.base + 1) else "another one")


def _has_more(seen: Seen) -> bool:
    """Return whether more websites follow the first page of ten."""
    return seen.ten is not None and seen.newest is not None and len(seen.newest.ids) > len(seen.ten.ids) > 0


def _page_size(seen: Seen) -> _Result:
    if seen.ten is None or seen.newest is None or not seen.newest.rows:
        return _NO_ROWS
    if _list_changed(seen):
        return _CHANGED
    ten, hundred = len(seen.ten.rows), len(seen.newest.rows)
    counted = f"{ten} of 10 rows, {hundred} of 100"
    if ten > 10:
        return _Result("ignored", counted)
    if hundred == 100 and ten == 10:
        return _Result("as requested", counted)
    total = seen.newest.page.total if seen.newest.page else None
    if ten == 10 and hundred < 100 and _is_list_total(seen):
        return _Result("as requested" if total == hundred else "capped", counted)
    return _Result(None, counted)


def _is_list_total(seen: Seen) -> bool:
    return _total(seen).value == "the list" or (
        seen.second is not None and bool(set(seen.second.ids) - set(seen.newest.ids if seen.newest else ()))
    )


def _is_sorted(seen: Seen) -> bool:
    return (
        seen.oldest is not None
        and bool(seen.oldest.rows)
        and seen.newest is not None
        and (seen.oldest.ids[0] != seen.newest.ids[0] or len(seen.newest.ids) == 1)
    )


def _total(seen: Seen) -> _Result:
    newest, ten = seen.newest, seen.ten
    if newest is None or newest.page is None or ten is None or ten.page is None:
        return _Result(None, "no list")
    if _list_changed(seen):
        return _CHANGED
    total, rows = newest.page.total, newest.ids
    if total is None:
        return _Result("no total") if rows else _NO_ROWS
    if ten.page.total != total:
        is_page = ten.page.total == len(ten.rows) and total == len(rows)
        return _Result("the page" if is_page else "something else", f"{ten.page.total} of 10 rows, {total} of 100")
    if total < len(rows):
        return _Result("something else", f"the total is {total}, the page has {len(rows)} rows")
    oldest = seen.oldest
    if oldest is None or not _is_sorted(seen):
        return _Result(None, "the oldest websites are unknown")
    if total == len(rows):
        beyond = set(oldest.ids) - set(rows)
        if not beyond and rows[-1:] == oldest.ids[:1]:
            return _Result("the list", f"{total} websites")
        # There are more rows than the total. Only a later page can show which of the two is capped.
        page = seen.tail.get(2)
        if beyond and page is not None and page.rows and set(page.ids).isdisjoint(rows):
            return _Result("something else", f"the total is {total}, a later page has further rows")
        return _Result(None, f"the total is {total}, and the oldest websites are not among the rows")
    size = len(rows)
    for number, page in seen.tail.items():
        if oldest.ids[0] in page.ids:
            counted = (number - 1) * size + len(page.ids)
            is_last = page.ids[-1] == oldest.ids[0]
            if is_last:
                return _Result("the list" if counted == total else "something else", f"{total}; {counted} rows")
    last = -(-total // size) if size else 0
    behind = seen.tail.get(last + 1)
    if behind is not None and behind.rows and behind.ids != (seen.tail[last].ids if last in seen.tail else None):
        return _Result("something else", f"the total is {total}, a later page has further rows")
    return _Result(None, f"the total is {total}; the last page was not found")


def _row_cap(seen: Seen) -> _Result:
    newest, oldest = seen.newest, seen.oldest
    if newest is None or newest.page is None or not newest.rows:
        return _NO_ROWS
    if _list_changed(seen):
        return _CHANGED
    if oldest is None or not _is_sorted(seen):
        return _Result(None, "the oldest websites are unknown")
    size = len(newest.ids)
    known = [newest, *seen.tail.values()]
    if set(oldest.ids) <= set(newest.ids) or any(page.ids[-1:] == oldest.ids[:1] for page in known):
        return _Result("all", "the last page ends with the oldest website")
    total = newest.page.total
    last = -(-total // size) if total else 0
    for number, page in seen.tail.items():
        before = seen.tail.get(number - 1)
        is_partial = 0 < len(page.ids) < size
        is_empty_behind_full = not page.ids and before is not None and len(before.ids) == size
        is_empty_second = number == 2 and not page.ids and page.answer.status in dialect.SUCCESS
        if number <= last + 1 and (is_partial or is_empty_behind_full or is_empty_second):
            return _Result("up to a limit", "the pages end before the oldest website")
    return _Result(None, "the last page was not found")


def _order(seen: Seen) -> _Result:
    newest, oldest = seen.newest, seen.oldest
    if newest is None or oldest is None or len(newest.ids) < 2:
        return _Result(None, "fewer than two websites")
    if _list_changed(seen):
        return _CHANGED
    if oldest.ids[:1] == newest.ids[:1]:
        return _Result("ignored", "both directions begin with the same website")
    numbers = [dialect.number(row["id"]) for row in newest.rows]
    if None in numbers:
        return _Result("by something else", "ids are not numbers")
    numbers_only = [number for number in numbers if number is not None]
    if numbers_only != sorted(numbers_only, reverse=True):
        return _Result("by something else", "ids are not in descending order")
    return _Result("by id, rising with creation", f"{len(numbers_only)} ids descend, the oldest ascend")


def _behind_last(seen: Seen) -> _Result:
    if _list_changed(seen) or seen.newest is None or seen.newest.page is None:
        return _CHANGED
    if _total(seen).value != "the list" or _row_cap(seen).value != "all":
        return _Result(None, "the last page is unknown")
    last = -(-(seen.newest.page.total or 0) // max(1, len(seen.newest.ids)))
    page = seen.tail.get(last + 1)
    if page is None:
        return _Result(None, "not requested")
    before = seen.tail[last].ids if last in seen.tail else seen.newest.ids
    if page.page is None and page.answer.status >= 400:
        return _Result("an error", f"status {page.answer.status}")
    if not page.rows:
        return _Result("empty" if page.page is not None else None, f"status {page.answer.status}")
    return _Result("the last page" if page.ids == before else None, f"{len(page.ids)} rows")


def _search(seen: Seen) -> _Result:
    if seen.searched is None or seen.newest is None:
        return _Result(None, "no domain in plain lower case")
    if _pages(seen).value == "another page than requested":
        return _Result(None, "the first page of the results is not returned")
    wanted = str(seen.searched["id"])
    if any(found.page is None for found in seen.searches.values()) or not seen.searches:
        status = next((found.answer.status for found in seen.searches.values()), "none")
        return _Result(None, f"status {status}")
    hits = {how: wanted in found.ids for how, found in seen.searches.items()}
    summary = ", ".join(f"{how}: {'found' if hit else 'not found'}" for how, hit in hits.items())
    first = seen.searches["in another case"]
    domain = domain_key(str(seen.searched["domain"]))
    others = [row for row in first.rows if domain not in domain_key(str(row.get("domain", "")))]
    if others:
        is_all = first.ids == seen.newest.ids
        return _Result("everything" if is_all else None, f"{len(others)} other domains")
    if hits["in another case"]:
        if hits.get("by a part"):
            return _Result("parts of a domain", summary)
        if hits.get("by its beginning"):
            return _Result("the beginning", summary)
        if "by its first label" in hits:
            return _Result("whole labels" if hits["by its first label"] else "the whole domain", summary)
        return _Result(None, summary)
    if hits.get("by its domain") is False:
        return _Result("nothing", summary)
    if hits.get("in another case again"):
        return _Result(None, f"{summary}: an index may be behind")
    return _Result("parts, in the same case" if hits.get("by a part") else None, summary)


def _favorite_filter(seen: Seen) -> _Result:
    if seen.newest is None or not seen.newest.rows:
        return _NO_ROWS
    if _list_changed(seen):
        return _CHANGED
    used = seen.settings.boolean_format
    other = next(name for name in dialect.BOOLEAN_FORMATS if name != used)
    false, true = (seen.favorites.get(text) for text in dialect.BOOLEAN_FORMATS[used])
    if false is None or true is None:
        return _Result(None, "not requested")
    other_false = seen.favorites.get(dialect.BOOLEAN_FORMATS[other][0])
    counted = f"{len(true.ids)} with true, {len(false.ids)} with false"
    helps = other_false is not None and bool(other_false.rows) and _flags(other_false) == {False}
    if true.page is None or false.page is None:
        if helps:
            value = "1 and 0 only" if other == "1/0" else "true and false"
            return _Result(value, f"status {false.answer.status}", {"boolean_format": other})
        return _Result(None, f"status {false.answer.status}")
    if not true.ids or not false.ids:
        return _Result(None, counted)
    if set(true.ids).isdisjoint(false.ids):
        flags = (_flags(true), _flags(false))
        if flags not in (({True}, {False}), (set(), set())):
            return _Result(None, counted)
        return _Result("true and false" if used == "true/false" else None, counted)
    if true.ids == false.ids and _flags(true) == {True} and helps:
        return _Result("any text is true", counted, {"boolean_format": other})
    if true.ids == false.ids == seen.newest.ids and _flags(true) == {True, False}:
        return _Result("no filter", counted)
    return _Result(None, counted)


def _flags(found: Listed) -> set[bool]:
    """Return the values of ``favorite`` in the rows."""
    texts = {"true": True, "1": True, "false": False, "0": False, "none": False, "": False}
    values = {str(row["favorite"]).lower() for row in found.rows if "favorite" in row}
    return {texts[text] for text in values if text in texts}


# Records


def _row_fields(seen: Seen) -> _Result:
    record = _record_in(decoded(seen.show), seen)
    if seen.shown is None or record is None:
        return _Result(None, "no single website")
    missing = [name for name in RECORD_FIELDS if name in record[1] and name not in seen.shown]
    if missing:
        return _Result("fewer", f"rows without {', '.join(missing)}")
    known = [name for name in RECORD_FIELDS if name in record[1]]
    if len(known) < 2:
        return _Result(None, "the record has no known fields")
    absent = [name for name in RECORD_FIELDS if name not in known]
    return _Result("those of a single website", f"neither has {', '.join(absent)}" if absent else "")


def _deleted_rows(seen: Seen) -> _Result:
    rows = seen.newest.rows if seen.newest else []
    marked = sum(map(dialect.is_deleted, rows))
    if marked:
        return _Result("marked", f"{marked} of {len(rows)} rows")
    return _Result(None, f"none of {len(rows)} rows is marked")


def _record_in(document: Any, seen: Seen) -> tuple[str, Mapping[str, Any]] | None:
    """Return the record of the requested website, preceded by the dotted path of its keys."""
    if seen.shown is None:
        return None
    wanted = str(seen.shown["id"])
    left: list[tuple[str, Any]] = [("", document)]
    for path, part in left:
        if isinstance(part, dict) and path.count(".") < 3:
            if str(part.get("id")) == wanted:
                return path, part
            left += [(f"{path}.{key}".lstrip("."), inner) for key, inner in part.items()]
    return None


def _record(seen: Seen) -> _Result:
    if seen.show is None:
        return _Result(None, "no single website")
    found = _record_in(decoded(seen.show), seen)
    if found is None:
        return _Result(None, f"status {seen.show.status}, no record of this id")
    path, record = found
    attributes = record.get("attributes")
    if isinstance(attributes, dict) and "domain" not in record:
        return _Result("attributes", "fields are under `attributes`")
    try:
        dialect.record(seen.show)
    except UnexpectedResponseError:
        return _Result("deeper", f"{path.count('.') + 1} keys deep")
    return _Result({"": "bare", "data": "data"}.get(path, "another key"))


def _all_rows(seen: Seen) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = list(seen.newest.rows) if seen.newest else []
    record = _record_in(decoded(seen.show), seen)
    return [*rows, record[1]] if record else rows


def _lists(seen: Seen) -> _Result:
    texts = [(name, row[name]) for row in _all_rows(seen) for name in LINE_FIELDS if row.get(name) not in (None, "")]
    if not texts:
        return _Result(None, "no website has a list")
    if any(isinstance(value, list) for _, value in texts):
        return _Result("an array", f"{len(texts)} lists")
    values = [(name, value) for name, value in texts if isinstance(value, str)]
    longest = max((len(value) for _, value in values), default=0)
    counted = f"{len(values)} lists, the longest of {longest} characters"
    for value, sign in (("CR LF", "\r\n"), ("<br>", "<br"), ("cut with dots", "...")):
        if any(sign in text if value != "cut with dots" else text.endswith(("...", "…")) for _, text in values):
            return _Result(value, counted)
    if any(_is_json_list(text) for _, text in values):
        return _Result("JSON text", counted)
    # Several texts of the same maximum length suggest truncation.
    if len({text for _, text in values if len(text) == longest}) > 2:
        return _Result(None, f"{counted}, several of them: they may be cut")
    separators = {
        name
        for name, sign in (("an entry per line", "\n"), ("commas", ","), ("blanks", " "))
        for field_name, text in values
        if _is_separator(field_name, text, sign)
    }
    if len(separators) == 1 and all(_is_parsable(name, text) for name, text in values if "\n" in text):
        return _Result(separators.pop(), counted)
    return _Result(None, counted if separators else f"{counted}, none has two entries")


def _is_json_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False


def _is_separator(name: str, text: str, sign: str) -> bool:
    """Return whether a text contains several entries separated by this sign."""
    if sign != "\n" and "\n" in text:
        return False
    parts = [part.strip() for part in text.split(sign)]
    return (len(parts) > 1 and "#" not in text and all(map(_check(name), filter(None, parts)))) or (
        sign == "\n" and len(parts) > 1 and _is_parsable(name, text)
    )


def _is_parsable(name: str, text: str) -> bool:
    lines = [without_comment(line.strip()) for line in text.splitlines()]
    return all(map(_check(name), filter(None, lines)))


def _check(name: str) -> Callable[[str], bool]:
    return LINE_FIELDS[name].is_understood


def _numbers(seen: Seen) -> _Result:
    names = ("privacy", "email", "exclude_bots")
    kinds = {(name, type(row[name])) for row in _all_rows(seen) for name in names if row.get(name) is not None}
    if not kinds:
        return _Result(None, "no row has a number or a flag")
    types = {kind for _, kind in kinds}
    if types == {int}:
        return _Result("numbers")
    if types == {str} and all(str(row[name]).isdigit() for row in _all_rows(seen) for name in names if name in row):
        return _Result("text")
    flags = {kind for name, kind in kinds if name != "privacy"}
    return _Result("flags as booleans" if flags == {bool} else None, ", ".join(sorted(kind.__name__ for kind in types)))


def _favorite(seen: Seen) -> _Result:
    values = [row["favorite"] for row in _all_rows(seen) if "favorite" in row]
    kinds = {type(value) for value in values}
    if not any(value in (False, None, 0, "false", "0", "") for value in values):
        return _Result(None, f"{len(values)} rows have it, none is false")
    if type(None) in kinds:
        return _Result("null for false")
    names = {bool: "boolean", int: "number", str: "text"}
    return _Result(names.get(kinds.pop()) if len(kinds) == 1 else None)


def _domains(seen: Seen) -> _Result:
    domains = [row["domain"] for row in _all_rows(seen) if isinstance(row.get("domain"), str)]
    for value, has_part in (
        ("with a scheme", lambda text: "://" in text),
        ("with a port", lambda text: ":" in text),
        ("with a slash", lambda text: text.endswith("/")),
    ):
        if any(map(has_part, domains)):
            return _Result(value, f"{sum(map(has_part, domains))} of {len(domains)} domains")
    return _Result(None, f"{len(domains)} domains without scheme, port and slash; only a create can reveal more")


def _duplicates(seen: Seen) -> _Result:
    rows = dialect.not_deleted(seen.newest.rows) if seen.newest else []
    keys = [domain_key(row["domain"]) for row in rows if isinstance(row.get("domain"), str)]
    duplicates = len(keys) - len(set(keys))
    return (
        _Result("yes", f"{duplicates} domains")
        if duplicates
        else _Result(None, f"no duplicates among {len(keys)} domains")
    )


# The rest


def _account(seen: Seen) -> _Result:
    try:
        record = dialect.account(seen.account) if seen.account else {}
    except UnexpectedResponseError:
        return _Result("nothing", "the response contains no account record")
    if record and all(isinstance(value, dict) for value in record.values()):
        return _Result(None, "the record is nested deeper in the response")
    name = next((name for name in dialect.ACCOUNT_NAMES if record.get(name) not in (None, "")), None)
    return _Result("nothing" if name is None else "name" if name == "username" else name, f"{len(record)} keys")


def _missing(seen: Seen) -> _Result:
    answer = seen.missing
    if answer is None:
        return _Result(None, "ids are not numbers, or there was no response")
    status = str(answer.status)
    if status == "200" and isinstance(decoded(answer), dict) and _has_id(decoded(answer)):
        return _Result(None, "an id above the newest exists")
    is_page = answer.status == 403 and dialect.is_html(answer)
    return _Result(status if status in ("404", "410", "403", "200") and not is_page else None, f"status {status}")


def _has_id(document: Any) -> bool:
    return isinstance(document, dict) and ("id" in document or any(map(_has_id, document.values())))


def _wrong_key(seen: Seen) -> _Result:
    answer = seen.wrong_key
    if answer is None:
        return _Result(None, "requested only with --wrong-key")
    if 300 <= answer.status < 400:
        return _Result("a redirect", f"status {answer.status}")
    if answer.status in dialect.SUCCESS and dialect.is_html(answer):
        return _Result("a page", f"status {answer.status}")
    return _Result(str(answer.status) if answer.status in (401, 403) else None, f"status {answer.status}")


def _errors(seen: Seen) -> _Result:
    answer = seen.missing
    if answer is None or answer.status < 400:
        return _Result(None, "no error response")
    kind = answer.headers.get("Content-Type", "").lower()
    if "problem+json" in kind:
        return _Result("problem details", f"status {answer.status}")
    if dialect.is_html(answer):
        return _Result("a page", f"status {answer.status}")
    document = decoded(answer)
    if isinstance(document, dict):
        return _Result("message" if isinstance(document.get("message"), str) else None, f"{len(document)} keys")
    return _Result("text" if kind.startswith("text/plain") else None, f"status {answer.status}")


def _rate_limit(seen: Seen) -> _Result:
    headers = {name.lower() for answer in seen.answers for name in answer.headers}
    named = headers & {
        name.lower() for name in ("RateLimit", "RateLimit-Policy", "Retry-After", *dialect.LIMIT_HEADERS)
    }
    if named:
        return _Result("in headers", ", ".join(sorted(named)))
    return _Result(None, "no such header; there may still be a limit")


def _freshness(seen: Seen) -> _Result:
    cached = sum(map(_is_cached, seen.answers))
    if cached:
        return _Result("from a cache", f"{cached} of {len(seen.answers)} responses")
    return _Result(None, "no response from a cache; only a write can reveal more")


def _is_cached(answer: Answer) -> bool:
    hit = any("hit" in answer.headers.get(name, "").lower() for name in ("X-Cache", "CF-Cache-Status"))
    return hit or bool(dialect.number(answer.headers.get("Age")))


def _secrets(seen: Seen) -> _Result:
    names = set(_keys(map(decoded, seen.answers)))
    if seen.holds_key:
        return _Result("yes", "a response contains the API key")
    named = sorted(filter(redaction.is_secret_key, names))
    if named:
        return _Result("yes", f"{len(named)} keys have the name of a secret")
    return _Result(None, f"none of {len(names)} keys has the name of a secret")


def _keys(parts: Iterable[Any]) -> Iterable[str]:
    left = list(parts)
    while left:
        part = left.pop()
        if isinstance(part, dict):
            yield from (name for name, value in part.items() if not isinstance(value, bool))
            left += part.values()
        elif isinstance(part, list):
            left += part


_EVALUATORS: Mapping[str, Callable[[Seen], _Result]] = {
    "rows": _rows,
    "pages": _pages,
    "links": _links,
    "page_number": _page_number,
    "page_size": _page_size,
    "total": _total,
    "row_cap": _row_cap,
    "order": _order,
    "behind_last": _behind_last,
    "search": _search,
    "favorite_filter": _favorite_filter,
    "row_fields": _row_fields,
    "deleted_rows": _deleted_rows,
    "record": _record,
    "lists": _lists,
    "numbers": _numbers,
    "favorite": _favorite,
    "domains": _domains,
    "duplicates": _duplicates,
    "account": _account,
    "missing": _missing,
    "wrong_key": _wrong_key,
    "errors": _errors,
    "rate_limit": _rate_limit,
    "freshness": _freshness,
    "secrets": _secrets,
}
#: Questions that reads can resolve.
ASKED = frozenset(_EVALUATORS)
