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
    ("field", "omitted", "null"),
    [
        (TEXT, "", ""),
        (FLAG, False, None),
        (PRIVACY, "public", None),
        (BOOLEAN, False, False),
        (Lines("paths", "paths", entries=EntryType()), (), ()),
    ],
)
def test_omitted_value_and_null_of_the_service_are_empty_values_of_some_types(
    field: Field, omitted: Any, null: Any
) -> None:
    assert field.from_service(field.omitted) == omitted
    assert (field.from_service(None), type(field.from_service(None))) == (null, type(null))


def test_null_of_the_service_is_no_value_of_a_domain_or_a_secret() -> None:
    assert Domain("domain", "a domain").from_service(None) is None
    assert Secret("token", "a secret").from_service(None) is None
