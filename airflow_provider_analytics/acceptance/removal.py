# SPDX-License-Identifier: Apache-2.0
"""The removal of the website: the delete as a tested step, and the removal after an interrupted run."""

from __future__ import annotations

from contextlib import suppress

from airflow_provider_analytics.acceptance.disposable import is_domain_of
from airflow_provider_analytics.acceptance.findings import reason
from airflow_provider_analytics.acceptance.state import LeftoverError, RunState
from airflow_provider_analytics.acceptance.transport import MAX_REQUESTS
from airflow_provider_analytics.exceptions import AnalyticsError, NotAppliedError, NotFoundError


def delete(state: RunState) -> None:
    """Delete the website, and verify that it is gone. A repeated delete finds no website, and sends nothing."""
    state.step = "delete"
    with state.findings.errors_as("operation-delete", "fail if they delete"):
        _send_delete(state)
        sent = state.transport.writes
        place = state.proven(lambda: _place(state), lambda place: not place)
        if place:
            raise NotAppliedError(state.website_id, {"website": f"still exists {place} after it was deleted"})
        if state.transport.writes == sent:
            tasks = "delete it once, and verify that it is gone"
            state.findings.add("operation-delete", "ok", "The website is gone.", tasks)
        state.forget_website()


def _send_delete(state: RunState) -> None:
    """Delete the website. If an earlier delete was interrupted, "not found" means that the website is gone."""
    is_repeated = state.is_delete_sent
    state.is_delete_sent = True
    try:
        state.client().delete_website(state.website_id)
    except NotFoundError:
        if not is_repeated:
            raise


def _place(state: RunState) -> str:
    """Return how the service still returns the website; empty if it does not."""
    if state.client().website_or_none(state.website_id) is not None:
        return "by its id"
    if state.has_website(state.newest()):
        return "in the list"
    return ""


def remove(state: RunState) -> None:
    """Remove the website, if it exists; otherwise, :attr:`RunState.not_removed` says why it may still exist."""
    if not state.is_create_sent:
        return
    state.step = "the removal of the website"
    state.transport.limit = MAX_REQUESTS
    try:
        if not state.website_id:
            state.website_id = state.proven(lambda: _find_created(state), bool)
        if state.website_id:
            state.transport.allow_writes(state.website_id)
            # A read could be old. If the website is gone already, the service responds to the delete with "not found".
            with suppress(NotFoundError):
                state.client().delete_website(state.website_id)
    except (AnalyticsError, ValueError) as error:
        website = f"A website {state.domain}"
        if state.website_id:
            website = f"Website {state.website_id}"
        state.not_removed = LeftoverError(
            f"{website} of this run may still exist, because it cannot be deleted: {reason(error)}",
            "Delete it in the service. The next run also tries to delete it.",
        )
        return
    state.forget_website()


def _find_created(state: RunState) -> str:
    """Return the id of the website, if the response to the create was lost, or contained no id; empty without one."""
    for row in [*state.newest().rows, *state.search(state.domain)]:
        if is_domain_of(row, state.domain):
            return str(row["id"])
    return ""
