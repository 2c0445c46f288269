# SPDX-License-Identifier: Apache-2.0
"""What Airflow connections become: the settings of a client, and the path of a URL on its storage."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowNotFoundException, ObjectStoragePath

from airflow_provider_analytics.api.checks import closest, invalid
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AnalyticsConfigError, MissingPackageError
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.storage import StoragePath

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
    port: int | str | None
    schema: str | None
    login: str | None
    password: str | int | None
    extra: str | Mapping[str, Any] | None


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
    # A secrets backend can return a number, or the extra as an object.
    password, login, schema = (_text(value) for value in (connection.password, connection.login, connection.schema))
    for secret in (password, login):
        secrets.add(secret)
    host = _in_brackets(_text(connection.host))
    extras, problem = _extras(connection.extra)
    options = {}
    problems = [problem]
    for name, value in extras.items():
        if name not in EXTRAS:
            problems.append(_unknown_extra(name))
        elif not _is_unset(value):
            options[name] = value
    problems += [_schema_problem(schema), _login_problem(login, password)]
    try:
        host = _with_port(host, connection.port)
    except ValueError as error:
        problems.append(str(error))
    settings = None
    try:
        settings = Settings(base_url=host, api_key=password, source=source, **options)
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


def _text(value: object) -> str:
    """Return the text of a field of a connection; empty if it is unset."""
    if value is None:
        return ""
    return str(value).strip()


def _in_brackets(host: str) -> str:
    """Return a host with brackets if it is an IPv6 address: Airflow removes them from a connection URI."""
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return host
    return f"[{host}]"


def _login_problem(login: str, password: str) -> str:
    if not login or password:
        return ""
    return "The login is not used. Enter the API key in the field API key (password)."


def _schema_problem(schema: str) -> str:
    if not schema.strip("/ "):
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
    if not str(port or 0).isdigit():
        raise ValueError(f"Port {port!r} is not a number. Enter the port of the service, or leave it empty.")
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


def _extras(extra: Any) -> tuple[dict[str, Any], str]:
    """Return the extras of a connection, and the problem with them.

    :param extra: a JSON object, or its text.
    """
    found = extra
    if isinstance(extra, str):
        try:
            found = json.loads(extra.strip() or "{}")
        except ValueError:
            return {}, "extra is not valid JSON."
    if found is None:
        return {}, ""
    if not isinstance(found, dict):
        return {}, "extra is not a JSON object."
    # The test in the form of Airflow 2 sends each extra under two names.
    return {str(name).removeprefix(FORM_PREFIX): value for name, value in found.items()}, ""


def _unknown_extra(name: str) -> str:
    if name.lower() in ("api_key", "apikey", "key", "password", "token"):
        return f"The extra {name!r} is unknown. Enter the key in the field API key."
    hint = closest(name, EXTRAS) or f". Allowed: {', '.join(EXTRAS)}."
    return f"The extra {name!r} is unknown{hint}"


_PLACES = "a URL such as s3://bucket/path or file:///path, or /path"

#: Scheme to the package that provides its file system, from the documentation of Airflow's providers.
_PROVIDERS = {
    "s3": "apache-airflow-providers-amazon[s3fs]",
    "gs": "apache-airflow-providers-google",
    "abfs": "apache-airflow-providers-microsoft-azure",
    "abfss": "apache-airflow-providers-microsoft-azure",
    "adl": "apache-airflow-providers-microsoft-azure",
}


def _has_file_system(scheme: str) -> bool:
    """Return whether Airflow or an installed provider registers a file system for a scheme."""
    try:
        module = import_module("airflow.sdk.io.fs")
    except ImportError:  # Airflow 2
        module = import_module("airflow.io")
    return bool(module.has_fs(scheme))


def storage_path(url: Any, argument: str) -> StoragePath:
    """Return the storage path of a URL or an absolute path.

    The connection id in ``s3://my_conn@bucket/path`` is used, but the URL of the path does not contain it: other
    readers of that URL cannot use it.

    :param url: text, or a path object such as ``ObjectStoragePath``.
    :param argument: name of the argument, for the message.
    :raises ValueError: for a relative path, which would depend on the working directory of the worker, and for an
        unknown scheme.
    :raises MissingPackageError: if no installed provider registers the scheme; the message names the package that does.
    """
    if isinstance(url, (os.PathLike, ObjectStoragePath)):
        url = str(url)
    if not isinstance(url, str):
        raise invalid(argument, url, _PLACES)
    scheme, separator, rest = url.partition("://")
    host, slash, inside = rest.partition("/")
    conn_id, _, host = host.rpartition("@")  # Airflow treats everything before an "@" as a connection id
    if (scheme == "file" and host) or not (separator or url.startswith("/")):
        raise invalid(argument, url, _PLACES)
    try:
        path = StoragePath.of(ObjectStoragePath(url))
    except AirflowNotFoundException as error:
        if not conn_id:
            raise
        raise ValueError(
            f"{argument}={url!r} cannot be used: Airflow reads the text before the @ as a connection id but has no "
            f"connection {conn_id!r}. Write {scheme}://CONN_ID@BUCKET/PATH, or omit the part before the @. For Azure, "
            "the bucket is the container: the account is part of the connection"
        ) from error
    except ValueError:
        if _has_file_system(scheme):
            raise
        problem = f"{argument}={url!r} cannot be used, because this worker has no file system for {scheme}://"
        package = _PROVIDERS.get(scheme)
        if package:
            raise MissingPackageError(f"{problem}.", f"Install {package} on all workers.") from None
        raise ValueError(f"{problem}. Allowed: file, {', '.join(_PROVIDERS)}") from None
    if not separator:
        return path
    return replace(path, url=f"{scheme}://{host}{slash}{inside}")
