"""The fields of a website, declared once.

:data:`WEBSITE_FIELDS` defines form fields, the SQLite table, the records in responses, and their OpenAPI schema. The
table is deliberately independent of ``airflow_provider_analytics.api``, so that it does not repeat mistakes made there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_analytics.sandbox.value_types import BOOLEAN, DOMAIN, TEXT, ValueType, integer


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a website.

    :param name: its name in forms, in responses and as an SQLite column.
    :param form: the type of its value in forms; None: the field is not in forms.
    :param meaning: its description in OpenAPI, for form fields.
    :param default: its value if a create omits the field.
    :param required: whether a create must contain it.
    :param on_create: whether a create may contain it.
    :param on_update: whether an update may contain it.
    :param column: type and constraints of the SQLite column.
    :param shown_as: JSON schema of its value in responses; None: the field is not in responses.
    """

    name: str
    form: ValueType | None = None
    meaning: str = ""
    default: Any = None
    required: bool = False
    on_create: bool = False
    on_update: bool = False
    column: str
    shown_as: Mapping[str, Any] | None


_FLAG = {"type": "integer", "enum": [0, 1]}
_BOOLEAN = {"type": "boolean"}
_OPTIONAL_TEXT = {"type": ["string", "null"]}

#: Every field, in the order of forms and responses.
WEBSITE_FIELDS = (
    Field(
        name="id",
        column="INTEGER PRIMARY KEY AUTOINCREMENT",
        shown_as={"type": "integer", "minimum": 1},
    ),
    Field(
        name="domain",
        form=DOMAIN,
        meaning="domain name",
        required=True,
        on_create=True,
        column="TEXT NOT NULL",
        shown_as={"type": "string"},
    ),
    Field(
        name="privacy",
        form=integer(0, 1, 2),
        meaning="0 public, 1 private, 2 password",
        default=0,
        on_create=True,
        on_update=True,
        column="INTEGER NOT NULL",
        shown_as={"type": "integer", "enum": [0, 1, 2]},
    ),
    Field(
        name="password",
        form=TEXT,
        meaning="password of the statistics page; no effect unless privacy is 2",
        on_create=True,
        on_update=True,
        column="TEXT",
        shown_as=None,
    ),
    Field(
        name="email",
        form=integer(0, 1),
        meaning="periodic e-mail reports",
        default=0,
        on_create=True,
        on_update=True,
        column="INTEGER NOT NULL",
        shown_as=_FLAG,
    ),
    Field(
        name="exclude_bots",
        form=integer(0, 1),
        meaning="exclude common bots from tracking",
        default=1,
        on_create=True,
        on_update=True,
        column="INTEGER NOT NULL",
        shown_as=_FLAG,
    ),
    Field(
        name="exclude_params",
        form=TEXT,
        meaning="URL query parameters to exclude, one per line",
        on_create=True,
        on_update=True,
        column="TEXT",
        shown_as=_OPTIONAL_TEXT,
    ),
    Field(
        name="exclude_ips",
        form=TEXT,
        meaning="IP addresses to exclude, one per line",
        on_create=True,
        on_update=True,
        column="TEXT",
        shown_as=_OPTIONAL_TEXT,
    ),
    Field(
        name="favorite",
        form=BOOLEAN,
        meaning="marked as favorite",
        default=False,
        on_update=True,
        column="INTEGER NOT NULL",
        shown_as=_BOOLEAN,
    ),
    Field(
        name="created_at",
        column="TEXT NOT NULL",
        shown_as={"type": "string", "format": "date-time"},
    ),
)

#: JSON schemas of the fields in responses.
SHOWN = {field.name: field.shown_as for field in WEBSITE_FIELDS if field.shown_as is not None}
#: Fields that responses contain as 0 or 1.
FLAGS = tuple(name for name, schema in SHOWN.items() if schema == _FLAG)
#: Exclusion lists, stored as text with one entry per line.
LISTS = tuple(name for name, schema in SHOWN.items() if schema == _OPTIONAL_TEXT)
#: Fields that responses contain as a boolean; SQLite stores them as integers.
BOOLEANS = tuple(name for name, schema in SHOWN.items() if schema == _BOOLEAN)
#: Defaults of all form fields except the domain.
DEFAULTS = {field.name: field.default for field in WEBSITE_FIELDS if field.form is not None and not field.required}
