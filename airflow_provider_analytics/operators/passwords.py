# SPDX-License-Identifier: Apache-2.0
"""Passwords of statistics pages. They are stored in Airflow; files and arguments contain only references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, Variable, mask_secret

from airflow_provider_analytics.api.checks import invalid
from airflow_provider_analytics.api.fields import FIELDS, PASSWORD_FROM, check_password_from
from airflow_provider_analytics.readable import Redactor, first_of


def passwords_of(references: Mapping[str, Iterable[str]], secrets: Redactor) -> dict[str, str]:
    """Return the password of each reference, and mask it in logs and in data.

    :param references: ``connection:NAME`` or ``variable:NAME`` to the domains that need its password.
    :param secrets: secrets of the connection; the passwords are added.
    :raises ValueError: if references are not allowed, have no password, or one that a service would change, such as
        with a line break at its end. The message has the references, and no password.
    """
    passwords: dict[str, str] = {}
    missing, unusable = [], []
    for reference, domains in references.items():
        password = _password(check_password_from(reference))
        where = f"{PASSWORD_FROM}={reference!r} of {first_of(list(domains), 3)}"
        if not password:
            missing.append(where)
            continue
        passwords[reference] = password
        mask_secret(password)
        secrets.add(password)
        try:
            FIELDS["password"].from_user(password)
        except ValueError as error:
            unusable.append(f"{where}: {error}")
    if missing:
        raise ValueError(f"No password was found in {'; '.join(missing)}. Set it in Airflow. No changes were sent")
    if unusable:
        raise ValueError(f"{'; '.join(unusable)}. Correct the password in Airflow. No changes were sent")
    return passwords


def _password(reference: str) -> str | None:
    kind, _, name = reference.partition(":")
    if kind == "variable":
        found: str | None = Variable.get(name, None)
        return found
    try:
        connection = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None
    if connection.conn_type == "analytics":  # its password is an API key
        raise invalid(PASSWORD_FROM, reference, "a connection of another type than analytics")
    return connection.password
