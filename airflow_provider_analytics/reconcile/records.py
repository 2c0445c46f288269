# SPDX-License-Identifier: Apache-2.0
"""The parts of a website record that all steps need: domain, id, name for people, and the fields that can be set."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_analytics.api.fields import WEBSITE_FIELDS
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.readable import readable

#: Fields that can be set and that a record can contain, such as ``privacy`` and ``exclude_ips``, but not ``password``.
SETTABLE_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.on_update and field.column)


def website_of(record: Record) -> tuple[str, str]:
    """Return the domain (empty if missing) and the id of a record, such as ``("www.example.com", "7")``."""
    return str(record.get("domain") or ""), str(record["id"])


def by_id(records: Iterable[Record]) -> dict[str, Record]:
    """Return records by website id, such as ``{"7": {"id": 7, "domain": "www.example.com"}}``."""
    return {str(record["id"]): record for record in records}


def website_name(domain: str, website_id: str | None) -> str:
    """Return the readable name of a website for logs and errors, such as ``www.example.com (id 7)``."""
    if not website_id:
        return readable(domain)
    return f"{readable(domain)} (id {website_id})" if domain else f"id {website_id}"
