"""Query parameters and form fields of the interface: strict parsing and OpenAPI descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from airflow_provider_analytics.sandbox.fields import WEBSITE_FIELDS
from airflow_provider_analytics.sandbox.value_types import (
    BOOLEAN,
    NUMBER_OF_BOOLEAN,
    TEXT,
    TRUTH_OF_TEXT,
    ValueType,
    integer,
    page_number,
    word,
)


class InvalidInputError(Exception):
    """Invalid input of a client; ``errors`` maps field names to messages."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        super().__init__("The given data was invalid.")
        self.errors = dict(errors)


@dataclass(frozen=True)
class Parameter:
    """A query parameter or form field.

    :param default: the documented default; None: no default.
    """

    name: str
    value_type: ValueType
    meaning: str
    default: Any = None
    required: bool = False

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the value, with the default."""
        schema = self.value_type.schema
        return schema if self.default is None else {**schema, "default": self.default}


def decode_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Decode a query string or an ``application/x-www-form-urlencoded`` body; blank values are kept.

    :raises InvalidInputError: if it is malformed.
    """
    if not raw:
        return []
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError as error:
        raise InvalidInputError({"body": ["The data must be URL-encoded name=value pairs."]}) from error


def read_values(
    pairs: Sequence[tuple[str, str]], parameters: Sequence[Parameter], *, strict: bool = True
) -> dict[str, Any]:
    """Parse ``pairs`` by ``parameters`` and return the given values by name.

    :param strict: reject names that are not in ``parameters`` instead of ignoring them.
    :raises InvalidInputError: with all problems at once.
    """
    known = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    seen: set[str] = set()
    for name, text in pairs:
        if name not in known:
            if strict:
                errors.setdefault(name, []).append(f"The {name} field is not accepted here.")
            continue
        if name in seen:
            errors.setdefault(name, []).append(f"The {name} field is given more than once.")
            continue
        seen.add(name)
        try:
            values[name] = known[name].value_type.parse(text)
        except ValueError as error:
            errors.setdefault(name, []).append(f"The {name} field {error}.")
    for parameter in parameters:
        if parameter.required and parameter.name not in seen:
            errors.setdefault(parameter.name, []).append(f"The {parameter.name} field is required.")
    if errors:
        raise InvalidInputError(errors)
    return values


def page_parameter(name: str, first: int = 1) -> Parameter:
    """Return the query parameter that selects a page by number. The interface does not document its name."""
    return Parameter(name, page_number(first), "page number", default=first)


def cursor_parameter(name: str) -> Parameter:
    """Return the query parameter that selects a page by a cursor."""
    return Parameter(name, TEXT, "cursor of the page")


LIST_PARAMETERS = (
    Parameter("search", TEXT, "part of the searched field"),
    Parameter("search_by", word("domain"), "field to search", default="domain"),
    Parameter("favorite", BOOLEAN, "marked as favorite"),
    Parameter("sort_by", word("id", "domain"), "sort key", default="id"),
    Parameter("sort", word("desc", "asc"), "sort direction", default="desc"),
    Parameter("per_page", integer(10, 25, 50, 100), "websites per page", default=100),
)


def offset_parameter() -> Parameter:
    """Return the query parameter that skips websites."""
    return Parameter("offset", page_number(0), "number of websites to skip", default=0)


#: Type of the ``favorite`` parameter, by :attr:`Options.favorite_filter`.
BOOLEANS = {"boolean": BOOLEAN, "truth of text": TRUTH_OF_TEXT, "1/0": NUMBER_OF_BOOLEAN}


def with_booleans(parameters: Sequence[Parameter], read_as: str) -> tuple[Parameter, ...]:
    """Return the parameters with another type for booleans."""
    return tuple(
        replace(parameter, value_type=BOOLEANS[read_as]) if parameter.value_type is BOOLEAN else parameter
        for parameter in parameters
    )


CREATE_FIELDS = tuple(
    Parameter(field.name, field.form, field.meaning, default=field.default, required=field.required)
    for field in WEBSITE_FIELDS
    if field.form is not None and field.on_create
)
#: An update has no defaults: omitted fields keep their values.
UPDATE_FIELDS = tuple(
    Parameter(field.name, field.form, field.meaning)
    for field in WEBSITE_FIELDS
    if field.form is not None and field.on_update
)
