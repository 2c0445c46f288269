"""Pure functions that convert an Airflow connection to client settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from airflow_provider_analytics.api.checks import flag, nearest, refused
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.readable import Redactor

#: Prefix of a form field of Airflow 2, before the name of its extra.
FORM_PREFIX = f"extra__{CONNECTION_TYPE['connection-type']}__"


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

    Extras may be text, as in a URI. Unset extras may be null, as in the connection form.

    :param conn_id: id of the connection, for messages.
    :raises AnalyticsConfigError: if the connection is invalid; lists all problems, and never contains the key.
    """
    source = f"connection {conn_id!r}"
    if connection.conn_type != CONNECTION_TYPE["connection-type"]:
        # Checked first: the password is the secret of another service.
        raise AnalyticsConfigError(
            [
                f"The connection is of type {connection.conn_type!r}, not {CONNECTION_TYPE['connection-type']!r}; its "
                "password was not sent."
            ],
            source,
        )
    # The problems quote values, and the key may be in a wrong field.
    secrets = Redactor()
    for secret in (connection.password, connection.login):
        secrets.add((secret or "").strip())
    problems: list[str] = []

    def attempt(read: Callable[[], Any], fallback: Any) -> Any:
        try:
            return read()
        except ValueError as problem:
            problems.append(str(problem))
            return fallback

    extras = attempt(partial(_extras, connection.extra), {})
    values: dict[str, Any] = {}
    for name, value in extras.items():
        if name not in EXTRAS:
            problems.append(_unknown_extra(name))
        elif value is not None and (not isinstance(value, str) or value.strip()):
            value = attempt(partial(EXTRAS[name], name, value), None)
            if value is not None:
                values[name] = value
    attempt(partial(_check_schema, connection), None)
    attempt(partial(_check_login, connection), None)
    host = attempt(partial(_host, connection), None)
    try:
        settings = Settings(
            # Prevents a second problem, "missing", for a host that is already reported as invalid.
            base_url=host if host is not None else "https://unknown.invalid",
            api_key=connection.password or "",
            source=source,
            **values,
        )
    except AnalyticsConfigError as error:
        problems += error.problems
    if problems:
        raise AnalyticsConfigError([secrets(problem) for problem in problems], source)
    return settings


def _check_login(connection: ConnectionLike) -> None:
    if (connection.login or "").strip() and not (connection.password or "").strip():
        raise ValueError("The login is not used; enter the API key in the field API key (password).")


def _check_schema(connection: ConnectionLike) -> None:
    schema = (connection.schema or "").strip("/ ")
    if not schema:
        return
    host = (connection.host or "").strip().rstrip("/") or "stats.example.com"
    if schema in ("http", "https"):
        what, right = "the scheme", f"{schema}://{host.rpartition('://')[2]}"
    else:
        what, right = "a sub-path", f"{host}/{schema}"
    # Omitted, because the part before an @ or a query may be a secret.
    spelling = "" if re.search("[@?#]", host) else f", {right!r}"
    raise ValueError(
        f"schema={connection.schema!r} is not used: {what} belongs in the Base URL{spelling}. "
        "In a connection URI, write the whole base URL percent-encoded as the host, such as "
        "analytics://:KEY@https%3A%2F%2Fstats.example.com%2Fapp."
    )


def _host(connection: ConnectionLike) -> str:
    """Return the base URL as one text, with a separate port inserted before the sub-path."""
    host = (connection.host or "").strip()
    if not host or not connection.port:
        return host
    try:
        url = urlsplit(host if "://" in host else f"https://{host}")
        port = url.port
    except ValueError:
        return host  # Settings reports the problem
    if "@" in url.netloc or url.query or url.fragment:
        return host  # Settings refuses it, and omits its value, which may contain a secret
    if port is None:
        return urlunsplit(url._replace(netloc=f"{url.netloc.rstrip(':')}:{connection.port}"))
    if port != int(connection.port):
        raise ValueError(f"Base URL {host!r} and Port {connection.port} name two different ports; give only one.")
    return host


def _extras(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text and text.strip() else {}
    except ValueError:
        raise ValueError("extra is not valid JSON.") from None
    if not isinstance(found, dict):
        raise ValueError("extra is not a JSON object.")
    # The test in the form of Airflow 2 sends each extra under two names.
    return {name.removeprefix(FORM_PREFIX): value for name, value in found.items()}


def _unknown_extra(name: str) -> str:
    if name.lower() in ("api_key", "apikey", "key", "password", "token"):
        return f"The extra {name!r} is unknown; the key belongs in the field API key."
    near = nearest(name, EXTRAS)
    hint = f"did you mean {near!r}?" if near else f"allowed: {', '.join(EXTRAS)}."
    return f"The extra {name!r} is unknown; {hint}"


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise refused(name, value, "text")
    return value.strip()


def _number(name: str, value: object) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError  # noqa: TRY301
        return float(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        raise refused(name, value, "a number") from None


def _whole_number(name: str, value: object) -> int:
    number = _number(name, value)
    if not number.is_integer():
        raise refused(name, value, "a whole number")
    return int(number)


def _verify(name: str, value: object) -> bool | str:
    try:
        return flag(name, value)
    except ValueError:
        return _text(name, value)  # the path of a CA bundle


def _mapping(example: str, name: str, value: object) -> dict[str, str]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is not allowed in this form; allowed: a JSON object such as {example}.")
    return dict(value)


def _upper(name: str, value: object) -> str:
    return _text(name, value).upper()


#: Name of each extra of a connection to its parser; any other extra is refused.
EXTRAS: dict[str, Callable[[str, object], Any]] = {
    "timeout": _number,
    "max_retries": _whole_number,
    "requests_per_minute": _whole_number,
    "verify": _verify,
    "client_cert": _text,
    "proxies": partial(_mapping, '{"https": "http://proxy:3128"}'),
    "headers": partial(_mapping, '{"CF-Access-Client-Id": "..."}'),
    "parallel_requests": _whole_number,
    "page_parameter": _text,
    "list_key": _text,
    "boolean_format": _text,
    "update_method": _upper,
    "allow_insecure_http": flag,
}
