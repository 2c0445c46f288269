"""Checks of the arguments of operators, by name. Templates and tasks upstream can return any value.

The checks here are about the type of a value. What else is allowed is checked where the value is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from airflow_provider_analytics.api.checks import is_missing_text, refused
from airflow_provider_analytics.readable import is_plain

#: A template that was not rendered, or a list or dict that a template rendered as text.
_NOT_RENDERED = re.compile(r"\{\{|\{%|^\s*[\[({].*['\"].*[\])}]\s*$")
_PLACE = "a URL or an absolute path"
_DAY = "a date, YYYY-MM-DD"

#: Text argument to what it contains.
_TEXTS = {
    "analytics_conn_id": "the id of a connection",
    "base_path": _PLACE,
    "config_path": _PLACE,
    "snapshot_name": "the name of the snapshots",
    "domain": "a domain name",
    "exclude_ips_path": _PLACE,
    "exclude_params_path": _PLACE,
    "output_path": _PLACE,
    "list_name": "the name of a list",
    "search": "the text to search for",
    "state_path": _PLACE,
}
#: Text arguments that are never None.
_REQUIRED = ("analytics_conn_id", "snapshot_name")


def check_value(name: str, value: Any) -> None:
    """Check the type of an argument.

    :raises ValueError: if the value is not allowed; the message has the argument, the value and the allowed values.
    """
    check = _CHECKS.get(name)
    if check is not None:
        check(name, value)


def _check_text(name: str, value: Any) -> None:
    if value is None and name not in _REQUIRED:
        return
    is_text = isinstance(value, str) and value.strip() and is_plain(value)
    if not is_text or is_missing_text(value) or _NOT_RENDERED.search(value):
        raise refused(name, value, _TEXTS[name])


def _check_compression(name: str, value: Any) -> None:
    if not (value is None or isinstance(value, str)) or is_missing_text(value):
        raise refused(name, value, "gzip, zstd, or None for no compression")


def _check_day(name: str, value: Any) -> None:
    """Check a day. An empty template, which renders to "" or "None", means the default."""
    from airflow_provider_analytics.snapshots.run_day import parse_day

    if value is None or (isinstance(value, str) and value.strip() in ("", "None")):
        return
    try:
        parse_day(str(value))
    except ValueError:
        raise refused(name, value, _DAY) from None


def _check_moment(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, (str, date)):
        raise refused(name, value, f"{_DAY}, or a date with a time")


def _check_names_of_fields(name: str, value: Any) -> None:
    from airflow_provider_analytics.api.checks import names, one_of
    from airflow_provider_analytics.api.fields import RECORD_FIELDS

    for field in names(name, value):
        one_of(name, field, RECORD_FIELDS)


_CHECKS: Mapping[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(_TEXTS, _check_text),
    "compression": _check_compression,
    "current": _check_day,
    "ignore_fields": _check_names_of_fields,
    "partition_date": _check_moment,
    "previous": _check_day,
    "snapshot_date": _check_day,
}
