# SPDX-License-Identifier: Apache-2.0
"""Fields of a website: every place that needs them knows each field of the table in ``api/fields.py``.

Nearly all places derive their fields from the table. The others, which people and type checkers read, are compared
here, with a case for each place. A failure names the place and the fields.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self
from unittest import mock

import pytest
from field_values import VALUES
from sync_operators import SYNC_OPERATORS

from airflow_provider_analytics.api.client import WriteResult
from airflow_provider_analytics.api.fields import (
    LINE_FIELDS,
    PASSWORD_FROM,
    WEBSITE_FIELDS,
    CreateSettings,
    UpdateSettings,
    same_setting,
)
from airflow_provider_analytics.api.waiting import Stats
from airflow_provider_analytics.operators.base import ARGUMENTS
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.sandbox.store import generate_websites

CHECKOUT = Path(__file__).parents[2]
ON_CREATE = {field.name for field in WEBSITE_FIELDS if field.on_create}
ON_UPDATE = {field.name for field in WEBSITE_FIELDS if field.on_update}
GIVEN: dict[str, Any] = {"domain": "a.example", **{name: value.given for name, value in VALUES.items()}}
GIVEN["privacy"] = 2  # with a password, no other value is allowed


class Recorder:
    """A hook that answers every call and keeps its arguments."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, Any]] = {}
        self.stats = Stats()
        self.redact = Redactor()

    @property
    def client(self) -> Self:
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **arguments: Any) -> Any:
            self.calls[name] = arguments | ({"domain": args[0]} if args else {})
            return WriteResult({"id": 1})

        return call


def sent_by(operator: Any, **others: Any) -> set[str]:
    """Name the fields that an operator sends unchanged."""
    known, hook = inspect.signature(inspect.unwrap(operator.__init__)).parameters, Recorder()
    given = {ARGUMENTS.get(name, name): value for name, value in GIVEN.items()}
    given[PASSWORD_FROM] = "connection:page_password"
    secret = json.dumps({"conn_type": "generic", "password": GIVEN["password"]})
    with (
        mock.patch.dict(os.environ, {"AIRFLOW_CONN_PAGE_PASSWORD": secret}),
        mock.patch("airflow_provider_analytics.hooks.analytics.AnalyticsHook", return_value=hook),
    ):
        arguments = {name: value for name, value in given.items() if name in known}
        try:
            operator(task_id="task", **{**arguments, **others}).execute({})
        except AttributeError as error:
            places = "docstring, signature, and body of __init__"
            raise AssertionError(f"operators/websites.py, {operator.__name__}: {error}. Add it to: {places}") from error
    sent = hook.calls.get("ensure_website") or hook.calls["update_website"]
    return {name for name, value in sent.items() if name in GIVEN and same_setting(name, value, GIVEN[name])}


def lists_of_the_page() -> set[str]:
    page = (CHECKOUT / "docs" / "exclusions.md").read_text(encoding="utf-8")
    return {field for field, operator in SYNC_OPERATORS.items() if f"`{operator.__name__}`" in page}


#: Place, the expected names, and the names that are there.
PLACES: dict[str, tuple[set[str], Callable[[], Iterable[str]]]] = {
    "api/fields.py, CreateSettings": (ON_CREATE - {"domain"}, lambda: CreateSettings.__annotations__),
    "api/fields.py, UpdateSettings": (ON_UPDATE, lambda: UpdateSettings.__annotations__),
    "CreateWebsiteOperator": (ON_CREATE, lambda: sent_by(CreateWebsiteOperator)),
    "UpdateWebsiteOperator": (ON_UPDATE, lambda: sent_by(UpdateWebsiteOperator, website_id=1, domain=None)),
    "operators/exclusions.py, a class per list": (set(LINE_FIELDS), lambda: SYNC_OPERATORS),
    "docs/exclusions.md, the operator of each list": (set(LINE_FIELDS), lists_of_the_page),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_has_every_field(place: str) -> None:
    wanted, find = PLACES[place]
    found = set(find())
    assert not wanted - found, f"{place}: add {', '.join(sorted(wanted - found))}"
    assert not found - wanted, f"{place}: remove {', '.join(sorted(found - wanted))}"


def test_generated_websites_are_the_same_in_each_version() -> None:
    domains = [website["domain"] for website in generate_websites(250, seed=7)]
    assert (domains[2], domains[249]) == ("mellow-drum.example.com", "sunny-garden.example.org")


@pytest.mark.repository
def test_generated_files_are_up_to_date() -> None:
    """``make generate`` writes schemas, interface.md, and tables of documents."""
    command = [sys.executable, str(CHECKOUT / "scripts" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
