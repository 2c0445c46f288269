# SPDX-License-Identifier: Apache-2.0
"""A value for each field of websites, for tests that use all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_analytics.api.fields import WEBSITE_FIELDS, Boolean, Domain, Field, Flag, Lines, PrivacyFlag


@dataclass(frozen=True)
class Value:
    """A value that differs from that of a new website.

    :param given: the value of a user.
    :param sent: the text that is sent.
    :param stored: the value that the service returns.
    """

    given: Any
    sent: str
    stored: Any


def _value(field: Field) -> Value:
    if isinstance(field, PrivacyFlag):
        return Value("private", "1", 1)
    if isinstance(field, Boolean):
        return Value(True, "true", True)
    if isinstance(field, Flag):
        number = int(not field.default)
        return Value(bool(number), str(number), number)
    if isinstance(field, Lines):
        entries = list(field.entries.examples)
        return Value(entries, "\n".join(entries), "\n".join(entries))
    return Value("example", "example", "example")


#: Field to a value, without the domain.
VALUES = {field.name: _value(field) for field in WEBSITE_FIELDS if not isinstance(field, Domain)}
#: Fields that are on or off.
FLAGS = [field.name for field in WEBSITE_FIELDS if isinstance(field, Flag) and not isinstance(field, PrivacyFlag)]
