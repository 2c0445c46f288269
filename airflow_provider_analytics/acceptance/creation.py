# SPDX-License-Identifier: Apache-2.0
"""The steps about the create: it gives the defaults, and a repeated create sends nothing."""

from __future__ import annotations

from airflow_provider_analytics.acceptance.disposable import is_domain_of
from airflow_provider_analytics.acceptance.findings import reason
from airflow_provider_analytics.acceptance.state import RunState
from airflow_provider_analytics.api.dialect import Record
from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.verification import ExpectedRecord
from airflow_provider_analytics.exceptions import AnalyticsApiError, DomainError

#: Statuses of a rejected create.
_REJECTED = frozenset({400, 409, 422})


def create(state: RunState) -> None:
    """Create the website with the defaults, verify it, and repeat that.

    :raises ValueError: if the service rejects the domain.
    """
    state.step = "create"
    state.record_created()
    state.is_create_sent = True
    record = _send_create(state)
    if not is_domain_of(record, state.domain):
        record = _read(state, str(record["id"]))
    if "domain" in record and not is_domain_of(record, state.domain):
        raise DomainError(
            "The response to the create has the id of another website.", (), "No further changes were sent."
        )
    # Set after the check: the website with this id is deleted at the end.
    state.website_id = str(record["id"])
    state.record = record
    state.record_created()
    state.transport.allow_writes(state.website_id)
    _conclude_domain(state)
    _conclude_defaults(state, record)


def _send_create(state: RunState) -> Record:
    """Create the website, and return its record."""
    client = state.client()
    # A create that is sure to be the only one of its domain takes the complete list.
    create_website = client.create_website
    if state.is_complete:
        create_website = client.ensure_website
    try:
        record = create_website(state.domain).record
    except DomainError as error:
        if not error.created:
            raise
        record = _read(state, error.created)
        if not is_domain_of(record, state.domain):
            raise
        state.stored_domain = str(record["domain"])
    except AnalyticsApiError as error:
        if error.created or error.status not in _REJECTED:
            raise
        raise ValueError(
            f"The service rejected the domain {state.domain!r}: {reason(error)} Give another one with --domain."
        ) from None
    return record


def _read(state: RunState, website_id: str) -> Record:
    """Return the record of the new website."""
    return state.proven(lambda: state.client().get_website(website_id))


def _conclude_domain(state: RunState) -> None:
    if not same_domain(state.stored_domain, state.domain):
        seen = "The service stores the domain in another form."
        state.findings.add("operation-create", "FAILS", seen, "fail, unless the DAG writes the domain in this form")
        return
    tasks = "look for the domain before a create, and never create it twice"
    if not state.is_complete:
        state.findings.add("operation-create", "ok", "Created.", tasks)
        return
    sent = state.transport.writes
    # An old list would lack the website, and a repeated create would create it again.
    if not state.proven(lambda: state.client().look_up(state.domain).websites, bool):
        state.client().ensure_website(state.domain)
    if state.transport.writes == sent:
        state.findings.add("operation-create", "ok", "Created, and not created again.", tasks)
    else:
        state.findings.add("operation-create", "FAILS", "Created again by a repeated step.", tasks)


def _conclude_defaults(state: RunState, record: Record) -> None:
    others = ExpectedRecord.of_new(state.domain, {}).compare(record).unsent
    if others:
        seen = f"Other defaults: {', '.join(others)}."
        state.findings.add("rule-defaults", "note", seen, "send the fields that they need")
    else:
        state.findings.add("rule-defaults", "ok", "As documented.", "omit fields that have their default")
