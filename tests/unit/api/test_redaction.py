"""Data for output: what holds a secret is cleaned text by text, what holds none is handed on as it is."""

from __future__ import annotations

import html
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.api.redaction import MASK, Redactor, is_secret_key, without_secrets

SECRETS = ("s3cr/t+key", 'quo"ted\\', "pässwort", "12345")
WRITTEN = (
    str,
    html.escape,
    quote,
    lambda text: quote(text, safe=""),
    quote_plus,
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    lambda text: quote(quote(text, safe=""), safe=""),
    lambda text: "".join(f"\\u{ord(character):04x}" for character in text),
)


def redactor() -> Redactor:
    redact = Redactor()
    for secret in SECRETS:
        redact.add(secret)
    return redact


def text_by_text(value: Any, redact: Redactor) -> Any:
    """What :func:`without_secrets` promises, without its look at all of it."""
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if not is_secret_key(name)}
        return {redact(name): text_by_text(inner, redact) for name, inner in kept.items()}
    if isinstance(value, list):
        return [text_by_text(inner, redact) for inner in value]
    if isinstance(value, str):
        return redact(value)
    return MASK if type(value) in (int, float) and redact(str(value)) == MASK else value


texts = st.one_of(
    st.text(),
    st.sampled_from(["line\nline", "a\\nb", "&", "100%", "a+b", "\\", '"', "Password", "\ud800", "secret"]),
    st.builds(lambda write, secret: write(secret), st.sampled_from(WRITTEN), st.sampled_from(SECRETS)),
)
values = st.one_of(st.none(), st.booleans(), st.integers(), st.just(12345), st.floats(allow_nan=False), texts)
data = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)


@given(data)
def test_data_is_cleaned_as_if_each_text_was_looked_at(found: Any) -> None:
    redact = redactor()
    assert without_secrets(found, redact) == text_by_text(found, redact)


@pytest.mark.parametrize("write", WRITTEN)
@pytest.mark.parametrize("secret", SECRETS[:3])
def test_a_secret_is_found_among_a_hundred_records(write: Any, secret: str) -> None:
    records: list[dict[str, Any]] = [{"id": one, "exclude_ips": "10.0.0.1\n10.0.0.2"} for one in range(100)]
    records[50]["note"] = write(secret)
    shown = json.dumps(without_secrets(records, redactor()), ensure_ascii=False)
    assert write(secret) not in json.loads(shown)[50]["note"]
    assert len(json.loads(shown)) == 100
