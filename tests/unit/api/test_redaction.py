# SPDX-License-Identifier: Apache-2.0
"""Redaction of secrets in output data (``readable.py``)."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_versions import VERSION, names_that_airflow_masks
from hypothesis import given
from hypothesis import strategies as st
from secret_forms import FORMS

from airflow_provider_analytics.api.fields import RECORD_FIELDS
from airflow_provider_analytics.readable import MASK, SENSITIVE_NAMES, Redactor, is_secret_key, without_secrets

SECRETS = ("s3cr/t+key", 'quo"ted\\', "pässwort", "12345", "123456789")


def redactor() -> Redactor:
    redact = Redactor()
    for secret in SECRETS:
        redact.add(secret)
    return redact


def by_structure(value: Any, secrets: Redactor) -> Any:
    """The documented result of :func:`without_secrets`, without its fast check of the whole data."""
    if isinstance(value, dict):
        return {
            name: by_structure(inner, secrets)
            for name, inner in value.items()
            if (isinstance(inner, bool) or not is_secret_key(name)) and not secrets.finds(name)
        }
    if isinstance(value, list):
        return [by_structure(inner, secrets) for inner in value]
    return MASK if type(value) in (str, int, float) and secrets.finds(str(value)) else value


texts = st.one_of(
    st.text(),
    st.sampled_from(["line\nline", "a\\nb", "&", "100%", "a+b", "\\", '"', "Password", "\ud800", "secret"]),
    st.builds(lambda write, secret: write(secret), st.sampled_from([*FORMS.values()]), st.sampled_from(SECRETS)),
)
values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([12345, 123456789]), st.floats(allow_nan=False), texts
)
data = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)


@given(data)
def test_cached_redaction_equals_redaction_of_every_value(found: Any) -> None:
    secrets = redactor()
    assert without_secrets(found, secrets) == by_structure(found, secrets)


def test_secret_names_equal_the_names_that_airflow_masks() -> None:
    assert names_that_airflow_masks() <= SENSITIVE_NAMES
    assert VERSION < (3, 3) or names_that_airflow_masks() == SENSITIVE_NAMES


@pytest.mark.parametrize(
    "name",
    ["Password", "site_password", "two_factor_secret", "apiKey", "X-Api-Key", "private.key", "Proxy-Authorization",
     " remember_token ", "tokens_used"],
)  # fmt: skip
def test_key_that_names_a_secret_is_dropped_at_any_depth(name: str) -> None:
    assert without_secrets([{"id": 1, "more": {name: "x", "kept": [{name: 7}]}}]) == [{"id": 1, "more": {"kept": [{}]}}]


@pytest.mark.parametrize("name", ["id", *RECORD_FIELDS, "compass", "key", "proxied", "ads_network", "notes", "name"])
def test_key_that_names_no_secret_is_kept(name: str) -> None:
    assert without_secrets({name: "x", "more": {name: 7}}) == {name: "x", "more": {name: 7}}


def test_boolean_is_not_a_secret() -> None:
    assert without_secrets({"has_password": True, "token": False, "secret": None, "api_key": 7}) == {
        "has_password": True,
        "token": False,
    }


def test_ids_and_domains_are_redacted_if_the_secret_became_known_after_they_were_read() -> None:
    records = [{"id": "pässwort", "domain": "pässwort.example", "site": {"id": "pässwort"}}]
    assert without_secrets(records, redactor()) == [{"id": "***", "domain": "***", "site": {"id": "***"}}]
    assert without_secrets(records) == records
