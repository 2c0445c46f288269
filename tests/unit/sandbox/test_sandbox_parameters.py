from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.sandbox.parameters import (
    CREATE_FIELDS,
    LIST_PARAMETERS,
    UPDATE_FIELDS,
    InvalidInputError,
    Parameter,
    decode_pairs,
    read_values,
)

# A lone surrogate has no UTF-8 form.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1))
def test_whatever_is_encoded_is_decoded(pairs: list[tuple[str, str]]) -> None:
    assert decode_pairs(urlencode(pairs).encode()) == pairs


@given(st.binary())
def test_any_bytes_are_decoded_or_refused(raw: bytes) -> None:
    try:
        decode_pairs(raw)
    except InvalidInputError as error:
        assert list(error.errors) == ["body"]  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize(
    ("parameters", "defaults"),
    [
        (CREATE_FIELDS, {"privacy": 0, "email": 0, "exclude_bots": 1}),
        (UPDATE_FIELDS, {}),
        (LIST_PARAMETERS, {"search_by": "domain", "sort_by": "id", "sort": "desc", "per_page": 100}),
    ],
)
def test_the_documented_defaults_are_those_of_the_interface(
    parameters: Sequence[Parameter], defaults: dict[str, object]
) -> None:
    schemas = {parameter.name: parameter.schema for parameter in parameters}

    assert {name: schema["default"] for name, schema in schemas.items() if "default" in schema} == defaults


@pytest.mark.parametrize("parameters", [CREATE_FIELDS, UPDATE_FIELDS, LIST_PARAMETERS])
def test_documented_values_are_accepted_and_others_are_not(parameters: Sequence[Parameter]) -> None:
    for parameter in parameters:
        for value in parameter.schema.get("enum", []):
            assert read_values([(parameter.name, str(value))], [parameter]) == {parameter.name: value}
        if "enum" in parameter.schema:
            with pytest.raises(InvalidInputError):
                read_values([(parameter.name, "7")], [parameter])


def test_every_problem_is_reported() -> None:
    pairs = [("privacy", "9"), ("colour", "red"), ("email", "0"), ("email", "1")]

    with pytest.raises(InvalidInputError) as caught:
        read_values(pairs, CREATE_FIELDS)

    assert caught.value.errors == {
        "privacy": ["The privacy field must be one of 0, 1, 2."],
        "colour": ["The colour field is not accepted here."],
        "email": ["The email field is given more than once."],
        "domain": ["The domain field is required."],
    }
