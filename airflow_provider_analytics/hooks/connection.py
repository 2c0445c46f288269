# SPDX-License-Identifier: Apache-2.0
"""Functions that convert an Airflow connection to client settings."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from airflow_provider_analytics.api.checks import nearest
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.readable import Redactor

#: Extras of a connection: settings of the client.
EXTRAS = tuple(CONNECTION_TYPE["conn-fields"])
#: Prefix of a form field of Airflow 2, before the name of its extra.
FORM_PREFIX = f"extra__{CONNECTION_TYPE['connection-type']}__"
#: End of the names of Airflow's modules that mask secrets; they differ between versions.
_MASKER = ".secrets_masker"


class ConnectionLike(Protocol):
    """Attributes of an Airflow connection that are used here."""

    conn_type: str | None
    host: str | None
    port: int | None
    schema: str | None
    login: str | None
    password: str | None
    extra: str | None


def settings_from_connection(connection: ConnectionLike, conn_id: str) -> Settings:
    """Return the settings of a connection of type ``analytics``.

    Extras can be text, as in a URI. Unset extras can be null, as in the connection form.

    :param conn_id: id of the connection, for messages.
    :raises AnalyticsConfigError: if the connection is invalid; lists all problems, and never contains the key.
    """
    source = f"connection {conn_id!r}"
    if connection.conn_type != CONNECTION_TYPE["connection-type"]:
        # Checked first: the password is the secret of another service.
        raise AnalyticsConfigError(
            [
                f"The connection is of type {connection.conn_type!r}, so its password was not sent. Set its type to "
                f"{CONNECTION_TYPE['connection-type']!r}, or select another connection."
            ],
            source,
        )
    # The problems quote values, and the key might be in a wrong field.
    secrets = Redactor()
    for secret in (connection.password, connection.login):
        secrets.add((secret or "").strip())
    host = (connection.host or "").strip()
    extras, problem = _extras(connection.extra)
    options = {}
    problems = [problem]
    for name, value in extras.items():
        if name not in EXTRAS:
            problems.append(_unknown_extra(name))
        elif not _is_unset(value):
            options[name] = value
    problems += [_schema_problem(connection.schema), _login_problem(connection)]
    try:
        host = _with_port(host, connection.port)
    except ValueError as error:
        problems.append(str(error))
    settings = None
    try:
        settings = Settings(base_url=host, api_key=connection.password or "", source=source, **options)
        problems.append(_proxies_problem(settings))
    except AnalyticsConfigError as error:
        problems += error.problems
    found = list(map(secrets, filter(None, problems)))
    if settings is None or found:
        raise AnalyticsConfigError(found, source)
    return settings


@contextmanager
def without_warnings_of_short_extras() -> Iterator[None]:
    """Leave out a warning of Airflow while it reads a connection.

    Airflow treats each extra as a possible secret, and warns that one such as ``boolean_format`` is too short to be
    masked. None of the short extras is a secret.
    """
    loggers = [logging.getLogger(name) for name in list(sys.modules) if name.endswith(_MASKER)]
    for logger in loggers:
        logger.addFilter(_is_other_warning)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_other_warning)


def _is_other_warning(record: logging.LogRecord) -> bool:
    return "Skipping masking for a secret" not in record.getMessage()


def _proxies_problem(settings: Settings) -> str:
    # To this machine, http is allowed; a proxy is another machine.
    if settings.allow_insecure_http or settings.base_url.startswith("https://"):
        return ""
    if all(scheme.startswith("https") for scheme in settings.proxies):
        return ""
    return (
        f"Base URL {settings.base_url!r} with the extra proxies would send the key to the proxy in clear text. "
        "Remove proxies, or use https."
    )


def _is_unset(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _login_problem(connection: ConnectionLike) -> str:
    if _is_unset(connection.login) or not _is_unset(connection.password):
        return ""
    return "The login is not used. Enter the API key in the field API key (password)."


def _schema_problem(schema: str | None) -> str:
    if not (schema or "").strip("/ "):
        return ""
    return (
        f"schema={schema!r} is not used: the scheme and a sub-path belong in the Base URL. In a connection URI, write "
        "the whole base URL percent-encoded as the host, such as "
        "analytics://:KEY@https%3A%2F%2Fstats.example.com%2Fapp."
    )


def _with_port(host: str, port: int | str | None) -> str:
    """Return a base URL with a separate port inserted before the sub-path; unchanged if it is not a URL.

    :raises ValueError: if it contains another port.
    """
    address = host
    if "://" not in host:
        address = f"https://{host}"
    try:
        url = urlsplit(address)
        own = url.port
    except ValueError:
        return host  # Settings reports the problem
    # Settings rejects a user name and a query, and omits their values, which might be secrets.
    if not host or not port or "@" in url.netloc or url.query or url.fragment:
        return host
    if own is None:
        return url._replace(netloc=f"{url.netloc.rstrip(':')}:{port}").geturl()
    if own != int(port):
        raise ValueError(
            f"Base URL {host!r} and Port {port} name two different ports. Enter the port of the Base URL as Port, too."
        )
    return host


def _extras(text: str | None) -> tuple[dict[str, Any], str]:
    """Return the extras of a connection, and the problem with them."""
    if not text or not text.strip():
        return {}, ""
    try:
        found = json.loads(text)
    except ValueError:
        return {}, "extra is not valid JSON."
    if not isinstance(found, dict):
        return {}, "extra is not a JSON object."
    # The test in the form of Airflow 2 sends each extra under two names.
    return {name.removeprefix(FORM_PREFIX): value for name, value in found.items()}, ""


def _unknown_extra(name: str) -> str:
    if name.lower() in ("api_key", "apikey", "key", "password", "token"):
        return f"The extra {name!r} is unknown. Enter the key in the field API key."
    near = nearest(name, EXTRAS)
    if near:
        return f"The extra {name!r} is unknown. The name of a similar extra is {near!r}."
    return f"The extra {name!r} is unknown. Allowed: {', '.join(EXTRAS)}."
