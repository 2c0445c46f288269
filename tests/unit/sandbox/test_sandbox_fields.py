from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.sandbox.fields import (
    CREATE_FIELDS,
    LIST_PARAMETERS,
    UPDATE_FIELDS,
    Field,
    decode_pairs,
    read_values,
)
from airflow_provider_analytics.sandbox.laravel import ApiError

# A lone surrogate has no UTF-8 form.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1))
def test_whatever_is_encoded_is_decoded(pairs: list[tuple[str, str]]) -> None:
    assert decode_pairs(urlencode(pairs).encode()) == pairs


@given(st.binary())
def test_any_bytes_are_decoded_or_refused(raw: bytes) -> None:
    try:
        read_values(raw, [])
    except ApiError as error:
        assert error.status == 422  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize(
    ("fields", "defaults"),
    [
        (CREATE_FIELDS, {"privacy": 0, "email": 0, "exclude_bots": 1}),
        (LIST_PARAMETERS, {"search": "", "search_by": "domain", "sort_by": "id", "sort": "desc", "per_page": 100}),
    ],
)
def test_the_defaults_are_those_of_the_interface(fields: Sequence[Field], defaults: dict[str, object]) -> None:
    assert {field.name: field.default for field in fields if field.default is not None} == defaults


@pytest.mark.parametrize(
    ("fields", "name", "texts", "values"),
    [
        (CREATE_FIELDS, "privacy", ["0", "1", "2"], [0, 1, 2]),
        (UPDATE_FIELDS, "email", ["0", "1"], [0, 1]),
        (CREATE_FIELDS, "exclude_bots", ["0", "1"], [0, 1]),
        (UPDATE_FIELDS, "favorite", ["0", "1", "true", "false"], [False, True, True, False]),
        (LIST_PARAMETERS, "per_page", ["10", "25", "50", "100"], [10, 25, 50, 100]),
        (LIST_PARAMETERS, "sort", ["desc", "asc"], ["desc", "asc"]),
    ],
)
def test_documented_values_are_accepted_and_others_are_not(
    fields: Sequence[Field], name: str, texts: list[str], values: list[object]
) -> None:
    (field,) = [field for field in fields if field.name == name]

    assert [read_values(f"{name}={text}".encode(), [field])[name] for text in texts] == values
    with pytest.raises(ApiError):
        read_values(f"{name}=7".encode(), [field])


def test_every_problem_is_reported() -> None:
    with pytest.raises(ApiError) as caught:
        read_values(b"privacy=9&colour=red&email=0&email=1", CREATE_FIELDS)

    assert caught.value.content["errors"] == {
        "privacy": ["The selected privacy is invalid."],
        "colour": ["The colour field is prohibited."],
        "email": ["The email field has a duplicate value."],
        "domain": ["The domain field is required."],
    }
