# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of operators, by name.

A value without a template is checked when the DAG is parsed, and every value after its template was rendered, because
templates and upstream tasks can return anything. The checks need no connection, no storage, and no extra of this
package. Further checks, such as those of addresses, follow where an operator combines its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

from airflow_provider_analytics.api.checks import (
    flag,
    fraction,
    invalid,
    is_missing_text,
    names,
    one_of,
    whole_number,
)
from airflow_provider_analytics.guards import parse_guards
from airflow_provider_analytics.readable import is_plain

#: A template that was not rendered, or a list or dict that a template rendered as text.
_NOT_RENDERED = re.compile(r"\{\{|\{%|^\s*[\[({].*['\"].*[\])}]\s*$")
_DAY = "a date, YYYY-MM-DD"

#: Field to argument, if they differ: every Airflow operator already has an argument ``email``.
ARGUMENTS = {"email": "email_reports", "password": "password_from"}

#: Text argument to a description of its value.
_TEXTS = {
    "analytics_conn_id": "the id of a connection",
    "domain": "a domain name",
    "list_name": "the name of a list",
    "search": "the text to search for",
    "snapshot_name": "the name of the snapshots",
}
#: Text arguments that are never None.
_REQUIRED = ("analytics_conn_id", "snapshot_name")

#: Argument to its allowed values. Values of modules that are slow to import are repeated here; a test compares them.
CHOICES: Mapping[str, Sequence[str | int]] = {
    "exclude_ips_as": ("keep", "hash", "drop"),
    "format": ("jsonl", "csv", "parquet"),
    "if_exists": ("skip", "update", "fail"),
    "mode": ("merge", "replace", "managed"),
    "networks": ("reject", "expand", "as_is"),
    "on_change": ("log", "fail", "skip"),
    "on_drift": ("fail", "skip", "log"),
    "on_late": ("fail", "skip", "publish"),
    "per_page": (10, 25, 50, 100),
    "search_by": ("domain",),
    "sort": ("desc", "asc"),
    "sort_by": ("id", "domain"),
}
#: Arguments of :data:`CHOICES` that can be None.
_OPTIONAL_CHOICES = ("mode", "per_page", "search_by", "sort", "sort_by")
COMPRESSIONS = ("gzip",)
_FLAGS = (
    "create_only",
    "dry_run",
    "html_report",
    "ignore_if_missing",
    "prune",
    "remove_damaged",
    "resolve_names",
)
#: Attribute to its argument, if they differ: ``BaseOperator.dry_run`` is a method.
_ARGUMENTS = {"is_dry_run": "dry_run"}


def is_literal(value: object) -> bool:
    """Return whether a value is known when the DAG is parsed: it contains no template, and no output of a task."""
    if isinstance(value, str):
        return "{{" not in value and "{%" not in value
    if isinstance(value, Mapping):
        return all(is_literal(key) and is_literal(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(is_literal(inner) for inner in value)
    return value is None or isinstance(value, (bool, int, float, date))


def check_value(attribute: str, value: Any) -> None:
    """Check the value of an argument.

    :param attribute: attribute of the operator with the value.
    :raises ValueError: if the value is not allowed; the message names the argument, the value, and the allowed values.
    """
    name = _ARGUMENTS.get(attribute, attribute)
    check = _CHECKS.get(name, _check_field)
    if name.endswith("_path"):
        check = _check_place
    check(name, value)


def _check_text(name: str, value: Any, allowed: str = "text") -> None:
    if value is None and name not in _REQUIRED:
        return
    is_text = isinstance(value, str) and value.strip() and is_plain(value)
    if not is_text or is_missing_text(value) or _NOT_RENDERED.search(value):
        raise invalid(name, value, _TEXTS.get(name, allowed))


def _check_place(name: str, value: Any) -> None:
    _check_text(name, value, "a URL or an absolute path")
    if value is not None and not value.startswith("/") and "://" not in value:
        raise invalid(name, value, "a URL such as s3://bucket/path or file:///path, or /path")


def _check_domain(name: str, value: Any) -> None:
    from airflow_provider_analytics.api.domains import check_domain

    _check_text(name, value)
    if value is not None:
        check_domain(value)


def _check_choice(name: str, value: Any) -> None:
    if value is not None or name not in _OPTIONAL_CHOICES:
        one_of(name, value, CHOICES[name])


def _check_compression(name: str, value: Any) -> None:
    if value not in (None, "", *COMPRESSIONS):
        raise invalid(name, value, "gzip, or None for no compression")


def _check_guards(name: str, value: Any) -> None:  # noqa: ARG001 - all checks have the same signature
    parse_guards(value)


def _check_day(name: str, value: Any) -> None:
    """Check a day. An empty template, which renders to "" or "None", means the default."""
    if value is None or (isinstance(value, str) and value.strip() in ("", "None")):
        return
    from airflow_provider_analytics.snapshots.run_day import parse_day

    try:
        parse_day(str(value))
    except ValueError:
        raise invalid(name, value, _DAY) from None


def _check_moment(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, (str, date)):
        raise invalid(name, value, f"{_DAY}, or a date with a time")


def _check_names_of_fields(name: str, value: Any) -> None:
    from airflow_provider_analytics.api.fields import RECORD_FIELDS

    for field in names(name, value):
        one_of(name, field, RECORD_FIELDS)


def _check_password_from(name: str, value: Any) -> None:  # noqa: ARG001 - all checks have the same signature
    from airflow_provider_analytics.api.fields import check_password_from

    if value is not None:
        check_password_from(value)


def _check_field(name: str, value: Any) -> None:
    """Check the setting of a website; lists and other arguments are checked where they are read."""
    from airflow_provider_analytics.api.fields import FIELDS, Field, Lines

    for field in FIELDS.values():
        if value is None or name != ARGUMENTS.get(field.name, field.name) or isinstance(field, Lines):
            continue
        if type(field) is Field:
            _check_text(name, value)
        replace(field, name=name).from_user(value)


def _check_selectors(name: str, value: Any) -> None:
    from airflow_provider_analytics.reconcile.desired.selection import parse_selectors

    is_all_or_filters = name == "websites" and (value is None or isinstance(value, Mapping))
    if not is_all_or_filters:
        parse_selectors(name, value)


def _check_digest(name: str, value: Any) -> None:  # noqa: ARG001 - all checks have the same signature
    """Check a digest that is given as text. A missing approval is the error of the run that needs it."""
    from airflow_provider_analytics.reconcile.plan.approval import parse_digest

    if isinstance(value, str) and value.strip() not in ("", "None"):
        parse_digest(value)


def _check_website_id(name: str, value: Any) -> None:  # noqa: ARG001 - all checks have the same signature
    from airflow_provider_analytics.api.fields import check_website_id

    if value is not None:
        check_website_id(value)


_CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    **dict.fromkeys(_TEXTS, _check_text),
    **dict.fromkeys(CHOICES, _check_choice),
    **dict.fromkeys(_FLAGS, flag),
    "approved_digest": _check_digest,
    "compression": _check_compression,
    "current": _check_day,
    "domain": _check_domain,
    "except_websites": _check_selectors,
    "ignore_fields": _check_names_of_fields,
    "keep_days": partial(whole_number, at_least=0),
    "keep_months": partial(whole_number, at_least=0),
    "keep_weeks": partial(whole_number, at_least=0),
    "max_loss_fraction": fraction,
    "max_records": partial(whole_number, at_least=1),
    "override_guards": _check_guards,
    "partition_date": _check_moment,
    "password_from": _check_password_from,
    "previous": _check_day,
    "snapshot_date": _check_day,
    "unmanage_websites": _check_selectors,
    "website_id": _check_website_id,
    "websites": _check_selectors,
}
