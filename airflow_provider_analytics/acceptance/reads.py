# SPDX-License-Identifier: Apache-2.0
"""The steps about the list: the order of ids, the search, the filter, the sort orders, and the page size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from airflow_provider_analytics.acceptance.disposable import new_domain
from airflow_provider_analytics.acceptance.findings import WITH_EXTRA
from airflow_provider_analytics.acceptance.state import RunState
from airflow_provider_analytics.acceptance.statements import Extras, Mark
from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.fields import ListFilters, list_query
from airflow_provider_analytics.api.listing import DEFAULT_QUERY
from airflow_provider_analytics.exceptions import AnalyticsApiError
from airflow_provider_analytics.readable import counted

#: Rows per page that split even a short list into pages, and number of rows that are read with it.
SMALL_PAGE = 10
SMALL_PAGE_ROWS = 25


def check_reads(state: RunState, *, is_favorite: bool) -> None:
    """Do all steps about the list.

    :param is_favorite: whether the service stored that the website is a favorite.
    """
    for name, read in READS.items():
        state.step = name
        if name == "favorite-filter" and not is_favorite:
            state.findings.add(name, "?", "The website is not a favorite.", "check each record against the filter")
            continue
        state.proven(partial(_mark, state, name, read), ("ok", "?").__contains__)


def _mark(state: RunState, name: str, read: Read) -> Mark:
    """Do a step about the list, and return the mark of its finding, which replaces an earlier one."""
    state.findings.pop(name, None)
    with state.findings.errors_as(name, read.tasks_if_it_fails):
        read.check(state)
    return state.findings[name].mark


def _check_order_of_ids(state: RunState) -> None:
    page = state.newest()
    if page.rows and str(page.rows[0]["id"]) == state.website_id:
        seen = "The new website is the first of the list."
        state.findings.add("id-sorts", "ok", seen, "read a list once, newest first")
    elif state.has_website(page):
        seen = "The new website is not the first of the list."
        state.findings.add("id-sorts", "note", seen, "read each list twice")
    else:
        seen = "The new website is not on the first page of the list."
        state.findings.add("id-sorts", "note", seen, "read the whole list after a create")


def _check_search(state: RunState) -> None:
    if not same_domain(state.stored_domain, state.domain):
        seen = "The service stores the domain in another form."
        state.findings.add("search", "?", seen, "look domains up in the list")
        return
    found = state.client().search_website(state.domain)
    if state.has_website(state.newest(search=new_domain(), search_by="domain")):
        state.findings.add("search", "note", "It finds websites of other domains.", "look domains up in the list")
    elif found is not None and str(found["id"]) == state.website_id:
        state.findings.add("search", "ok", "It finds the website.", "look domains up with it")
    else:
        seen = "It does not find the website."
        state.findings.add("search", "note", seen, "read the whole list to look a domain up")


def _check_favorite_filter(state: RunState) -> None:
    if _filters(state, {}):
        state.findings.add("favorite-filter", "ok", "It selects the favorites.", "list favorites with it")
        return
    current = state.client().settings.boolean_format
    for boolean_format in dialect.BOOLEAN_FORMATS:
        extras = {"boolean_format": boolean_format}
        if boolean_format != current and _filters(state, extras):
            state.findings.add("favorite-filter", "SET", "It works only with the extra.", WITH_EXTRA, extras)
            return
    seen = "It does not select the favorites."
    state.findings.add("favorite-filter", "note", seen, "fail if they list favorites")


def _filters(state: RunState, extras: Extras) -> bool:
    """Return whether the newest favorites contain the website, and the newest other websites do not."""
    client = state.client(extras)
    texts = client.settings.boolean_texts
    try:
        favorites = client.page(DEFAULT_QUERY | list_query(boolean_texts=texts, favorite=True))
        others = client.page(DEFAULT_QUERY | list_query(boolean_texts=texts, favorite=False))
    except AnalyticsApiError as error:
        if error.status in dialect.NO_SUCH_PAGE:
            return False
        raise
    return state.has_website(favorites) and not state.has_website(others)


def _check_sort(state: RunState) -> None:
    _check_directions(state, "sort", "id")


def _check_sort_by(state: RunState) -> None:
    _check_directions(state, "sort-by", "domain")


def _check_directions(state: RunState, name: str, sort_by: str) -> None:
    """Check that the two directions of a sort key start with different websites."""
    last = _first_id(state, sort_by=sort_by, sort="desc")
    first = _first_id(state, sort_by=sort_by, sort="asc")
    if not state.page.rows:
        state.findings.add(name, "?", "There is no other website.", "check the order of each list")
    elif last != first:
        state.findings.add(name, "ok", "Both directions work.", "read lists in both directions")
    else:
        seen = "Both directions start with the same website."
        state.findings.add(name, "FAILS", seen, "fail if they need the list")


def _first_id(state: RunState, **filters: Any) -> str:
    """Return the id of the first website; empty without websites."""
    for row in state.newest(per_page=SMALL_PAGE, **filters).rows:
        return str(row["id"])
    return ""


def _check_per_page(state: RunState) -> None:
    expected = [str(row["id"]) for row in state.newest().rows]
    page = state.newest(per_page=SMALL_PAGE)
    if len(expected) <= SMALL_PAGE:
        seen = "All websites are on one page of ten."
        state.findings.add("per-page", "?", seen, "check that pages are selected")
        return
    if len(page.rows) > SMALL_PAGE:
        seen = f"A page has {counted(len(page.rows), 'row')} instead of {SMALL_PAGE}."
        state.findings.add("per-page", "note", seen, "read pages of any size")
        return
    filters: ListFilters = {"per_page": SMALL_PAGE}
    rows = islice(state.client().iter_websites(**filters), SMALL_PAGE_ROWS)
    found = [str(row["id"]) for row in rows]
    if found[: len(expected)] == expected[: len(found)]:
        seen = f"{counted(len(found), 'website')} in pages of ten."
        state.findings.add("per-page", "ok", seen, "read page by page")
    else:
        seen = "Pages of ten have other websites than a large page."
        tasks = "read the list again if it changes, and fail if it is incomplete"
        state.findings.add("per-page", "note", seen, tasks)


class Read(NamedTuple):
    """A step about the list.

    :param check: does the step.
    :param tasks_if_it_fails: reaction of the tasks if the service rejects a request of the step.
    """

    check: Callable[[RunState], None]
    tasks_if_it_fails: str


#: Statement to its step, in the order in which they are done.
READS: Mapping[str, Read] = {
    "id-sorts": Read(_check_order_of_ids, "fail if they need the list"),
    "search": Read(_check_search, "read the whole list to look a domain up"),
    "favorite-filter": Read(_check_favorite_filter, "fail if they list favorites"),
    "sort": Read(_check_sort, "fail if they need the list"),
    "sort-by": Read(_check_sort_by, "fail if they sort by domain"),
    "per-page": Read(_check_per_page, "fail if the list has several pages"),
}
