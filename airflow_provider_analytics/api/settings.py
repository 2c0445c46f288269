# SPDX-License-Identifier: Apache-2.0
"""Settings of a client, validated once. All problems are reported together."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.dataclasses import dataclass

from airflow_provider_analytics.api import laravel
from airflow_provider_analytics.api.checks import NOT_SHOWN, flag, invalid
from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.readable import is_plain

#: Also the size of the connection pool.
MAX_PARALLEL = 16

_EXAMPLE_URLS = "such as https://stats.example.com or https://stats.example.com:8443/app"
_EXAMPLES = {"proxies": '{"https": "http://proxy:3128"}', "headers": '{"CF-Access-Client-Id": "..."}'}
_VERIFY = "true, false, or the path of a CA bundle in PEM format"
_CLIENT_CERT = "the path of a certificate with its key in PEM format, or the paths of both, separated by a comma"
#: Reasons of the TLS library for which it does not load a certificate with its key.
_REASONS = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "EE_KEY_TOO_SMALL": "the key of the certificate is too small",
    "CA_MD_TOO_WEAK": "the signature of the certificate is too weak",
}
_NOT_IN_A_URL = re.compile(r"[\s\\${}<>]|%(?![0-9A-Fa-f]{2})|^https?:(?!//)")


def is_loopback(hostname: str) -> bool:
    """Return whether a host name or address is always this machine."""
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return hostname == "localhost"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def _base_url(text: str, info: ValidationInfo) -> str:
    """Return the base URL in one spelling: a host in lower case, no default port, and no trailing slash."""
    if not text:
        raise ValueError(f"The Base URL is missing. Enter it, {_EXAMPLE_URLS}.")
    # The message omits parts that might be secret: a user with a password, a query, a fragment.
    has_query = re.search("[?#]", text) is not None
    shown = f"Base URL {text.rpartition('@')[2]!r}"
    if has_query:
        shown = "Base URL (value not shown)"
    no_url = ValueError(f"{shown} is not a URL. Enter a URL {_EXAMPLE_URLS}.")
    address = text
    if "://" not in text:
        address = f"https://{text}"
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError:
        raise no_url from None
    if "@" in url.netloc:
        raise ValueError("The Base URL contains a user name or password. Enter the API key in the field API key.")
    if url.scheme not in ("http", "https"):
        raise ValueError(f"{shown} has the scheme {url.scheme!r}. Allowed: https, http. Enter a URL {_EXAMPLE_URLS}.")
    if has_query:
        raise ValueError(f"{shown} contains a query or a fragment. Enter a URL {_EXAMPLE_URLS}.")
    hostname = url.hostname or ""
    if port == 0 or not _is_url(text, hostname):
        raise no_url
    path = url.path.rstrip("/")
    if f"{laravel.API_PREFIX}/" in f"{path}/".lower():
        raise ValueError(f"{shown} contains {laravel.API_PREFIX}, which is added automatically. Remove it.")
    is_private = url.scheme == "https" or is_loopback(hostname)
    if not is_private and not info.data.get("allow_insecure_http"):
        raise ValueError(f"{shown} would send the key in clear text. Use https, or set the extra allow_insecure_http.")
    # A state folder is named after the Base URL, so each service has one spelling.
    host = hostname
    if ":" in hostname:
        host = f"[{hostname}]"
    if port not in (None, _DEFAULT_PORTS[url.scheme]):
        host = f"{host}:{port}"
    return SplitResult(url.scheme, host, path, "", "").geturl()


def _is_url(text: str, hostname: str) -> bool:
    is_host = hostname not in ("http", "https") and all(hostname.rstrip(".").split("."))
    return is_host and is_plain(text) and not _NOT_IN_A_URL.search(text)


def _api_key(key: str) -> str:
    # These messages are logged and displayed, so they omit the value.
    if not key:
        raise ValueError("The API key is missing. Enter it in the field API key of the connection.")
    if key == "***":
        raise ValueError(
            "The API key is '***', Airflow's mask for a secret, which was saved in place of the key. "
            "Enter the key itself."
        )
    if key.lower().startswith("bearer "):
        raise ValueError("The API key starts with 'Bearer', which is added automatically. Enter the key alone.")
    if key[0] == key[-1] and key[0] in "\"'":
        raise ValueError("The API key is in quotes. Enter the key without them.")
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise ValueError("The API key contains a space, a line break, or a non-ASCII character. Copy it again.")
    return key


def _verify(value: object) -> bool | str:
    with suppress(ValueError):
        return flag("verify", value)
    # An empty text would turn the verification off.
    if not isinstance(value, str) or not value.strip():
        raise _not_allowed("verify", value, _VERIFY)
    path = Path(value.strip())
    if not path.exists():
        raise ValueError(f"verify={value!r} cannot be used: there is no such file on this machine. Allowed: {_VERIFY}.")
    if path.is_file():
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except OSError as error:
            why = _why_unusable([path], error)
            raise ValueError(f"verify={value!r} cannot be used: {why}. Allowed: {_VERIFY}.") from None
    return str(path)


def _client_cert(value: str) -> str:
    certificate, key = _paths(value)
    for path in (certificate, key):
        if not Path(path).is_file():
            raise _not_allowed("client_cert", value, _CLIENT_CERT)
    try:
        # Without a password, Python would ask for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password="")
    except OSError as error:
        why = _why_unusable([Path(certificate), Path(key)], error)
        raise ValueError(f"client_cert={value!r} cannot be used: {why}. Allowed: {_CLIENT_CERT}.") from None
    return value


def _why_unusable(paths: Sequence[Path], error: OSError) -> str:
    """Return why files of certificates cannot be used.

    :param error: the error of the TLS library, which names neither the file nor its form.
    """
    contents = []
    for path in paths:
        try:
            contents.append((path, path.read_bytes()))
        except OSError as unreadable:
            return f"{path} cannot be read ({unreadable.strerror})"
    for path, content in contents:
        if not content.strip():
            return f"{path} is empty"
        if b"-----BEGIN" not in content:
            return f"{path} is not in PEM format"
        if content.count(b"-----BEGIN") != content.count(b"-----END"):
            return f"{path} is cut off"
    whole = b"".join(content for _path, content in contents)
    if b"CERTIFICATE-----" not in whole:
        return f"{paths[0]} contains no certificate"
    reason = getattr(error, "reason", None)
    if reason in _REASONS:
        return _REASONS[reason]
    if len(paths) > 1 and b"PRIVATE KEY-----" not in whole:
        return "the private key is missing"
    if b"ENCRYPTED" in whole:
        return "the key is encrypted, which is not supported"
    return f"the TLS library reports {reason or error.strerror or 'an unknown error'}"


def _paths(value: str) -> tuple[str, str]:
    certificate, _, key = value.partition(",")
    return certificate.strip(), (key or certificate).strip()


def _mapping(value: object, info: ValidationInfo) -> Mapping[str, str]:
    """Return a mapping, or the JSON object in a text. Its values might be secrets, so the messages omit them."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    if not isinstance(value, Mapping):
        allowed = f"a JSON object such as {_EXAMPLES[str(info.field_name)]}"
        raise ValueError(f"{info.field_name} is not allowed in this form. Allowed: {allowed}.")
    for name, text in value.items():
        if info.field_name == "proxies":
            _check_proxy(name, text)
        else:
            _check_header(name, text)
    return value


def _check_proxy(scheme: object, url: object) -> None:
    if not isinstance(url, str) or "://" not in url or not re.match(r"^(https?|all)(://|$)", str(scheme)):
        raise _not_allowed("proxies: the entry", scheme, f"a JSON object such as {_EXAMPLES['proxies']}")


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise _not_allowed("headers: the name", name, "the name of an HTTP header")
    if name.lower() == "authorization":
        raise ValueError(
            "headers: Authorization is not allowed, because it carries the API key. A proxy in front of the service "
            "must read another header, such as Proxy-Authorization."
        )
    if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value):
        raise _not_allowed(f"headers: the value of {name}", NOT_SHOWN, "one line of printable ASCII text")


def _not_allowed(name: str, value: object, allowed: str) -> ValueError:
    return ValueError(f"{invalid(name, value, allowed)}.")


def _in_capitals(value: object) -> object:
    if not isinstance(value, str):
        return value
    return value.strip().upper()


def _number(low: int, high: int) -> Any:
    return Field(ge=low, le=high, description=f"a whole number, {low} to {high}")


Headers = Annotated[Mapping[str, str], PlainValidator(_mapping)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", str_strip_whitespace=True))
class Settings:
    """Settings of one client. The repr omits the API key, the headers and the proxies.

    Values can be text, as in a connection: ``"30"``, ``"true"``, a JSON object. An error quotes the description of a
    field as the allowed values.

    :param allow_insecure_http: allow plain http to another host: the key is sent in clear text.
    :param base_url: scheme, host, optional port and sub-path of the service, without ``/api/v1``. The default scheme is
        https.
    :param api_key: API key of an account, sent as Bearer token (interface.md, Authentication).
    :param timeout: seconds to wait for a connection, and for the next bytes of a response; above 0, up to 600.
    :param max_retries: maximum number of retries of a request that is safe to repeat; 0 to 10.
    :param requests_per_minute: maximum number of requests of all threads in any 60 s, 2 to 100,000; None for no limit.
    :param verify: whether to verify TLS certificates, or the path of a CA bundle to verify them with.
    :param client_cert: path of a client certificate in PEM format with its key, or the paths of both, separated by a
        comma.
    :param proxies: scheme to proxy URL; if empty, the proxies of the environment are used.
    :param headers: additional headers of every request, such as those for a proxy in front of the service. Their values
        are treated as secrets.
    :param parallel_requests: maximum number of requests at the same time; 1 to 16.
    :param page_parameter: query parameter that selects a page of the list; None: taken from the links of the service,
        or :data:`laravel.PAGE_PARAMETER` without links.
    :param update_method: ``PATCH`` or ``PUT``; the interface accepts both for an update.
    :param source: name of these settings in messages, such as ``connection 'analytics_default'``.
    :raises AnalyticsConfigError: if settings are invalid; lists all problems.
    """

    # Before the base URL, whose validator reads it.
    allow_insecure_http: Annotated[bool, Field(description="True or False")] = False
    base_url: Annotated[str, AfterValidator(_base_url)]
    api_key: Annotated[str, AfterValidator(_api_key)] = dataclasses.field(repr=False)
    timeout: Annotated[float, Field(gt=0, le=600, description="a number of seconds above 0, up to 600")] = 30.0
    max_retries: Annotated[int, _number(0, 10)] = 3
    requests_per_minute: Annotated[int | None, _number(2, 100_000)] = None
    verify: Annotated[bool | str, PlainValidator(_verify)] = True
    client_cert: Annotated[str, AfterValidator(_client_cert)] | None = None
    proxies: Headers = dataclasses.field(default_factory=dict, repr=False)
    headers: Headers = dataclasses.field(default_factory=dict, repr=False)
    parallel_requests: Annotated[int, _number(1, MAX_PARALLEL)] = 8
    page_parameter: Annotated[str | None, Field(pattern=r"^[A-Za-z_][\w.\[\]-]*$", description="a parameter name")] = (
        None
    )
    update_method: Annotated[
        Literal["PATCH", "PUT"], BeforeValidator(_in_capitals), Field(description="PATCH, PUT")
    ] = "PATCH"
    source: str = "the connection"

    @model_validator(mode="wrap")
    @classmethod
    def _collect_problems(cls, given: Any, validate: Any) -> Self:
        try:
            settings: Self = validate(given)
        except ValidationError as error:
            problems = list(map(_problem, error.errors(include_url=False)))
            raise AnalyticsConfigError(problems, given.kwargs.get("source", "the connection")) from None
        return settings

    @property
    def host(self) -> str:
        """Host and port of the service, for messages."""
        return urlsplit(self.base_url).netloc

    @property
    def where(self) -> str:
        """Service and origin of the settings, as the last line of an error."""
        return f"Service: {self.base_url}, {self.source}"

    @property
    def client_cert_paths(self) -> tuple[str, str] | None:
        """Paths of the client certificate and of its key, which can be the same file."""
        if not self.client_cert:
            return None
        return _paths(self.client_cert)


def _problem(error: Mapping[str, Any]) -> str:
    """Return a problem that pydantic found as a sentence."""
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    field = Settings.__pydantic_fields__[error["loc"][0]]  # type: ignore[attr-defined]
    return str(_not_allowed(error["loc"][0], error["input"], field.description or "text"))
