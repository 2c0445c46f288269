# SPDX-License-Identifier: Apache-2.0
"""Values of website fields: given by users, returned by the service, sent, and stored (``api/fields.py``)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_analytics.api.entries import Addresses, EntryType, Parameters
from airflow_provider_analytics.api.fields import (
    Boolean,
    Domain,
    Field,
    Flag,
    Lines,
    Privacy,
    PrivacyFlag,
    Secret,
    check_create,
    check_update,
    check_website_id,
    count_entries,
    differing_fields,
    form,
    list_query,
    normalize,
    raw_lines,
    same_setting,
)

WORDS = ("no", "yes")
TEXT = Field("note", "a note")
DOMAIN = Domain("domain", "the domain")
PRIVACY = PrivacyFlag("privacy", "who sees it")
FLAG = Flag("email", "reports")
BOOLEAN = Boolean("favorite", "a mark")
PARAMS = Lines("exclude_params", "parameters", entries=Parameters())
ADDRESSES = Lines("exclude_ips", "addresses", entries=Addresses())
SECRET = Secret("password", "a password")


@pytest.mark.parametrize(
    ("field", "given", "normalized", "sent"),
    [
        (TEXT, "Berlin office", "Berlin office", "Berlin office"),
        (DOMAIN, "Shop.example", "Shop.example", "Shop.example"),
        (PRIVACY, Privacy.PASSWORD, "password", "2"),
        (PRIVACY, " Private ", "private", "1"),
        (PRIVACY, "0", "public", "0"),
        (FLAG, True, True, "1"),
        (FLAG, "false", False, "0"),
        (BOOLEAN, True, True, "yes"),
        (BOOLEAN, "0", False, "no"),
        (PARAMS, ["b", "a"], ("b", "a"), "b\na"),
        (PARAMS, "b\n\n a ", ("b", "a"), "b\na"),
        (PARAMS, [], (), ""),
        (ADDRESSES, ["192.0.2.1 # office"], ("192.0.2.1 # office",), "192.0.2.1 # office"),
        (SECRET, "correct horse", "correct horse", "correct horse"),
    ],
)
def test_value_of_a_user_is_normalized_and_sent(field: Field, given: Any, normalized: Any, sent: str) -> None:
    assert field.from_user(given) == normalized
    assert field.to_form(normalized, WORDS) == sent


@pytest.mark.parametrize(
    ("field", "given"),
    [
        (TEXT, 1),
        (TEXT, None),
        (DOMAIN, "no spaces allowed"),
        (PRIVACY, 3),
        (PRIVACY, True),
        (FLAG, 2),
        (FLAG, "perhaps"),
        (PARAMS, ""),
        (PARAMS, [1]),
        (ADDRESSES, ["office"]),
        (SECRET, ""),
        (SECRET, " padded"),
        (SECRET, "two\nlines"),
        (SECRET, "***"),
    ],
)
def test_invalid_value_of_a_user_is_an_error_that_names_the_field(field: Field, given: Any) -> None:
    with pytest.raises(ValueError, match=field.name):
        field.from_user(given)


@pytest.mark.parametrize(
    ("field", "returned", "normalized", "stored"),
    [
        (TEXT, None, "", None),
        (TEXT, "Berlin", "Berlin", "Berlin"),
        (DOMAIN, "anything goes", "anything goes", "anything goes"),
        (PRIVACY, "1", "private", 1),
        (FLAG, 0, False, 0),
        (FLAG, "1", True, 1),
        (BOOLEAN, None, False, None),
        (BOOLEAN, 1, True, True),
        (PARAMS, None, (), ""),
        (PARAMS, "a\r\n\r\nb", ("a", "b"), "a\nb"),
        (PARAMS, ["a", "b\nc"], ("a", "b", "c"), "a\nb\nc"),
    ],
)
def test_value_of_the_service_is_normalized_and_stored(
    field: Field, returned: Any, normalized: Any, stored: Any
) -> None:
    assert field.from_service(returned) == normalized
    assert field.to_column(returned) == stored


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


def test_unknown_value_of_the_service_is_kept_for_comparisons_and_never_sent() -> None:
    assert normalize("privacy", 7) == 7
    assert normalize("of_another_version", [1]) == [1]
    assert raw_lines("exclude_ips", "not an address\n192.0.2.1") == ("not an address", "192.0.2.1")
    assert raw_lines("exclude_ips", 5) is None
    assert raw_lines("email", "1") is None


@pytest.mark.parametrize(
    ("name", "lines", "number"),
    [
        ("exclude_params", ("a", "b", "a", "# a comment"), 2),
        ("exclude_params", (), 0),
        ("exclude_params", "a text", 0),
        ("exclude_ips", ("192.0.2.1, 192.0.2.2;192.0.2.3",), 3),
        ("email", ("a", "b"), 0),
    ],
)
def test_entries_of_a_list_are_counted_in_any_form(name: str, lines: object, number: int) -> None:
    assert count_entries(name, lines) == number


@pytest.mark.parametrize(
    ("name", "first", "other", "is_same"),
    [
        ("exclude_ips", "192.0.2.1\n192.0.2.2", ["192.0.2.2", "192.0.2.1 # office"], True),
        ("exclude_ips", "192.0.2.1", "192.0.2.2", False),
        ("exclude_params", "a", "A", False),
        ("domain", "Bücher.example", "xn--bcher-kva.example", True),
        ("privacy", 1, "private", True),
        ("email", "1", True, True),
        ("email", 0, 1, False),
        ("of_another_version", 1, 1, True),
    ],
)
def test_settings_are_compared_by_their_meaning(name: str, first: object, other: object, is_same: bool) -> None:
    assert same_setting(name, first, other) is is_same


def test_settings_that_differ_from_a_record_or_are_missing_in_it_are_named() -> None:
    record = {"email": 1, "privacy": 0}
    settings = {"email": True, "privacy": "private", "exclude_bots": False, "exclude_ips": None}
    assert differing_fields(record, settings) == ["privacy", "exclude_bots"]


def test_settings_of_a_request_are_checked_and_sent_in_the_order_of_the_interface() -> None:
    settings = check_create(exclude_ips="192.0.2.1", privacy="public", email=None)
    assert settings == {"privacy": "public", "exclude_ips": ("192.0.2.1",)}
    assert list(form(settings, WORDS).items()) == [("privacy", "0"), ("exclude_ips", "192.0.2.1")]
    assert form(check_update(favorite=True), WORDS) == {"favorite": "yes"}
    with pytest.raises(ValueError, match="Nothing to update"):
        check_update(favorite=None)
    with pytest.raises(ValueError, match=r"favorit is not a field of this request\. The closest is 'favorite'"):
        check_update(favorit=True)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="favorite is not a field of this request"):
        check_create(favorite=True)  # type: ignore[call-arg]


def test_filters_of_a_list_are_checked_and_sent_in_the_order_of_the_interface() -> None:
    query = list_query(boolean_texts=WORDS, per_page=25, favorite="true", search="shop", sort=None)  # type: ignore[arg-type]
    assert list(query.items()) == [("search", "shop"), ("favorite", "yes"), ("per_page", "25")]
    for name, value, allowed in (
        ("search", 5, "text"),
        ("sort", "up", "desc, asc"),
        ("per_page", 30, "10, 25, 50, 100"),
        ("favorite", "perhaps", "True or False"),
    ):
        with pytest.raises(ValueError, match=f"{name}.*{allowed}"):
            list_query(boolean_texts=WORDS, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("website_id", [0, 7, "7", "a-b_c", "0192f3a0-0000-7000-8000-000000000000"])
def test_website_id_is_a_number_or_text(website_id: object) -> None:
    assert check_website_id(website_id) == str(website_id)


@pytest.mark.parametrize("website_id", [-1, True, 1.0, None, "", ".", "..", "a/b", "a b", "a?b", "a#b", "None", "nan"])
def test_invalid_website_id_is_an_error(website_id: object) -> None:
    with pytest.raises(ValueError, match="website_id"):
        check_website_id(website_id)


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
