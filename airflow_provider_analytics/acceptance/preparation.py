# SPDX-License-Identifier: Apache-2.0
"""The steps before the create: the account, the list, and the removal of websites of earlier runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from airflow_provider_analytics.acceptance.disposable import PREFIX, CreatedWebsite, is_disposable, is_domain_of
from airflow_provider_analytics.acceptance.findings import reason
from airflow_provider_analytics.acceptance.state import LeftoverError, RunState
from airflow_provider_analytics.acceptance.transport import RequestLimitError
from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.dialect import Record
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    IncompleteListError,
    NotAppliedError,
    NotFoundError,
    UnexpectedResponseError,
)

#: Maximum number of requests to read the list.
MAX_LIST_REQUESTS = 16
#: Maximum number of leftovers that are removed in one run.
MAX_LEFTOVERS = 5


def prepare(state: RunState) -> None:
    """Read the account and the list, remove leftovers, and check that no website has the domain.

    :raises LeftoverError: if a website of an earlier run cannot be removed.
    :raises ValueError: if a website has the given domain.
    """
    state.created.check_writable()
    _read_account(state)
    state.step = "leftovers of earlier runs"
    rows = _read_list(state)
    _remove_leftovers(state, rows)
    if state.is_given and not state.is_complete:
        rows += state.search(state.domain)
    for row in rows:
        if is_domain_of(row, state.domain):
            raise ValueError(
                f"--domain {state.domain!r} has a website already (id {row['id']}). Give a domain that no website has. "
                "No changes were sent."
            )


def _read_account(state: RunState) -> None:
    state.step = "the account"
    account = state.client().get_account()
    if dialect.account_id(account) is None:
        state.findings.add("operation-account", "note", "The account has no id.", "bind approvals to the base URL only")
    else:
        state.findings.add("operation-account", "ok", "The account has an id.", "bind approvals to the account")


def _read_list(state: RunState) -> list[Record]:
    """Read the list within limits, and return its rows."""
    rows: list[Record] = []
    with _limited(state, MAX_LIST_REQUESTS):
        state.page = state.newest()
        try:
            rows.extend(state.client().iter_websites())
            state.is_complete = True
        except RequestLimitError:
            state.findings.add(
                "operation-list", "?", "The list is too long to read it to its end here.", "read all of its pages"
            )
        except (IncompleteListError, UnexpectedResponseError, AnalyticsApiError) as error:
            tasks = "fail if they need the list; run the command probe, which looks for the extra that helps"
            state.findings.add("operation-list", "FAILS", f"The list cannot be read: {reason(error)}", tasks)
    if state.is_complete:
        state.findings.add("operation-list", "ok", "The list is complete.", "read it with a proof that it is complete")
        return rows
    # The newest websites, and the websites that a search finds, are the most likely leftovers.
    return [*rows, *state.page.rows, *state.search(PREFIX)]


@contextmanager
def _limited(state: RunState, requests: int) -> Iterator[None]:
    """Allow only this number of further requests inside the block."""
    limit = state.transport.limit
    state.transport.limit = min(limit, state.transport.stats.requests + requests)
    try:
        yield
    finally:
        state.transport.limit = limit


def _remove_leftovers(state: RunState, rows: list[Record]) -> None:
    """Remove websites of earlier runs that were killed."""
    #: Id to the recorded domain; empty if the domain itself shows that this tool created the website.
    leftovers: dict[str, str] = {}
    for row in rows:
        if is_disposable(row.get("domain")):
            leftovers[str(row["id"])] = ""
    for created in state.created.of(state.settings.base_url):
        if created.website_id:
            leftovers[created.website_id] = created.domain
        else:
            _check_unknown(state, created, rows)
    for website_id, domain in list(leftovers.items())[:MAX_LEFTOVERS]:
        if _is_own(state, website_id, domain):
            _delete_leftover(state, website_id)
        if domain:
            state.created.remove(CreatedWebsite(state.settings.base_url, domain))


def _check_unknown(state: RunState, created: CreatedWebsite, rows: list[Record]) -> None:
    """Forget a create that left no website; otherwise, raise an error: the website may be anybody's."""
    for row in [*rows, *state.search(created.domain)]:
        if is_domain_of(row, created.domain):
            raise LeftoverError(
                f"A run was killed while it created {created.domain}, and website {row['id']} has this domain.",
                f"If it is the leftover, delete it in the service. Then remove {state.created.path}, and run the "
                "command again. No changes were sent.",
            )
    state.created.remove(created)


def _is_own(state: RunState, website_id: str, domain: str) -> bool:
    """Return whether the record of a website says that this tool created it.

    :param domain: recorded domain; if empty, the domain must have the form of a disposable website.
    """
    record = None
    with suppress(NotFoundError):
        record = state.client().website_or_none(website_id)
    if record is None:
        return False
    if domain:
        return is_domain_of(record, domain)
    return is_disposable(record.get("domain"))


def _delete_leftover(state: RunState, website_id: str) -> None:
    state.transport.allow_writes(website_id)
    try:
        state.client().delete_website(website_id)
    except NotFoundError:
        return  # an earlier run deleted it, and its list was old
    except (NotAppliedError, AnalyticsApiError, UnexpectedResponseError) as error:
        raise LeftoverError(
            f"Website {website_id} of an earlier run cannot be deleted: {reason(error)}",
            "Delete it in the service, and run the command again. No website was created.",
        ) from None
    state.leftovers += 1
