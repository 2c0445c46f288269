# SPDX-License-Identifier: Apache-2.0
"""Values of website fields: given by users, returned by the service, sent, and stored (``api/fields.py``)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_analytics.api.entries import Addresses, EntryType, Parameters
from airflow_provider_analytics.api.fields import Boolean, Domain, Field, Flag, Lines, PrivacyFlag, Secret

TEXT = Field("note", "a note")
PRIVACY = PrivacyFlag("privacy", "who sees it")
FLAG = Flag("email", "reports")
BOOLEAN = Boolean("favorite", "a mark")
PARAMS = Lines("exclude_params", "parameters", entries=Parameters())
ADDRESSES = Lines("exclude_ips", "addresses", entries=Addresses())


def test_text_of_a_user_and_of_the_service_is_kept() -> None:
    """No field of the table is a plain text; tests/contract tests the fields of the table."""
    assert TEXT.from_user("Berlin office") == TEXT.to_form("Berlin office", ("no", "yes")) == "Berlin office"
    assert TEXT.from_service("Berlin") == TEXT.to_column("Berlin") == "Berlin"
    for value in (1, None):
        with pytest.raises(ValueError, match="note"):
            TEXT.from_user(value)


@pytest.mark.parametrize(
    ("field", "returned", "stored"),
    [
        (TEXT, 1, None),
        (PRIVACY, 7, 7),
        (FLAG, "perhaps", None),
        (FLAG, 10**18 - 1, 10**18 - 1),
        (FLAG, 10**18, None),
        (FLAG, -(10**18), None),
        (BOOLEAN, "perhaps", None),
        (PARAMS, 5, None),
        (PARAMS, ["a", 5], None),
        (ADDRESSES, "not an address", "not an address"),
    ],
)
def test_unknown_value_of_the_service_is_stored_only_if_it_fits_the_column(
    field: Field, returned: Any, stored: Any
) -> None:
    assert field.to_column(returned) == stored


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Field("note", "a note"), ""),
        (Flag("hidden", "whether it is hidden"), False),
        (PrivacyFlag("privacy", "who sees it"), "public"),
        (Boolean("starred", "whether it has a star"), False),
        (Lines("paths", "paths", entries=EntryType()), ()),
    ],
)
def test_omitted_value_is_valid_and_empty_for_each_type(field: Field, value: Any) -> None:
    assert field.from_service(field.omitted) == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Field("note", "a note"), ""),
        (Domain("domain", "a domain"), None),
        (Flag("hidden", "whether it is hidden"), None),
        (PrivacyFlag("privacy", "who sees it"), None),
        (Secret("token", "a secret"), None),
        (Boolean("starred", "whether it has a star"), False),
        (Lines("paths", "paths", entries=EntryType()), ()),
    ],
)
def test_null_of_the_service_is_an_empty_value_of_some_types(field: Field, value: Any) -> None:
    assert field.from_service(None) == value
    assert (field.from_service(None) is None) == (value is None)
