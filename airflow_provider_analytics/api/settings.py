"""Settings of a client, validated once. All problems are reported together."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.checks import NOT_SHOWN, refused
from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.readable import is_plain

MAX_TIMEOUT = 600
MAX_RETRIES = 10
MAX_PER_MINUTE = 100_000
#: Also the size of the connection pool.
MAX_PARALLEL = 16

_EXAMPLE_URLS = "such as https://stats.example.com or https://stats.example.com:8443/app"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one client. The repr omits the API key, the headers and the proxies.

    :param base_url: scheme, host, optional port and sub-path of the service, without ``/api/v1``. The default scheme is
        https.
    :param api_key: API key of an account, sent as Bearer token (docs/interface.md, Authentication).
    :param timeout: seconds to wait for a connection, and for the next bytes of a response; above 0, up to 600.
    :param max_retries: maximum number of retries of a request that is safe to repeat; 0 to 10.
    :param requests_per_minute: maximum number of requests of all threads in any 60 s, 2 to 100,000; None for no limit.
    :param verify: whether to verify TLS certificates, or the path of a CA bundle to verify them with.
    :param client_cert: path of a client certificate in PEM format with its key, or the paths of both, separated by a
        comma.
    :param proxies: scheme to proxy URL; empty for those of the environment.
    :param headers: additional headers of every request, such as those for a proxy in front of the service. Their values
        are treated as secrets.
    :param parallel_requests: maximum number of pages of the list that are requested at the same time; 1 to 16.
    :param page_parameter: query parameter that selects a page of the list; None: taken from the links of the service,
        or
        :data:`dialect.PAGE_PARAMETER` without links.
    :param list_key: key of the list in a response, with dots for nested objects; None: detected.
    :param boolean_format: format of booleans, a key of :data:`dialect.BOOLEAN_FORMATS`.
    :param update_method: ``PATCH`` or ``PUT``; the interface accepts both for an update.
    :param allow_insecure_http: allow plain http to another host: the key is sent in clear text.
    :param source: name of these settings in messages, such as ``connection 'analytics_default'``.
    :raises AnalyticsConfigError: if settings are invalid; lists all problems.
    """

    base_url: str
    api_key: str = field(repr=False)
    timeout: float = 30.0
    max_retries: int = 3
    requests_per_minute: int | None = None
    verify: bool | str = True
    client_cert: str | None = None
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    parallel_requests: int = 4
    page_parameter: str | None = None
    list_key: str | None = None
    boolean_format: str = "true/false"
    update_method: str = dialect.UPDATE_METHODS[0]
    allow_insecure_http: bool = False
    source: str = "the connection"

    def __post_init__(self) -> None:
        problems: list[str] = []
        try:
            object.__setattr__(self, "base_url", base_url(self.base_url, self.allow_insecure_http))
        except ValueError as problem:
            problems.append(str(problem))
        try:
            object.__setattr__(self, "api_key", _api_key(self.api_key))
        except ValueError as problem:
            problems.append(str(problem))
        if not 0 < self.timeout <= MAX_TIMEOUT:
            problems.append(_not_allowed("timeout", self.timeout, f"seconds above 0, up to {MAX_TIMEOUT}"))
        if not 0 <= self.max_retries <= MAX_RETRIES:
            problems.append(_not_allowed("max_retries", self.max_retries, f"0 to {MAX_RETRIES}"))
        if self.requests_per_minute is not None and not 2 <= self.requests_per_minute <= MAX_PER_MINUTE:
            problems.append(_not_allowed("requests_per_minute", self.requests_per_minute, f"2 to {MAX_PER_MINUTE}"))
        problems += _verify_problems(self.verify)
        problems += _client_cert_problems(self.client_cert_paths)
        problems += _proxy_problems(self.proxies)
        problems += _header_problems(self.headers)
        if not 1 <= self.parallel_requests <= MAX_PARALLEL:
            problems.append(_not_allowed("parallel_requests", self.parallel_requests, f"1 to {MAX_PARALLEL}"))
        if self.page_parameter is not None and not re.fullmatch(r"[A-Za-z_][\w.\[\]-]*", self.page_parameter):
            problems.append(_not_allowed("page_parameter", self.page_parameter, "a parameter name"))
        if self.list_key is not None and not re.fullmatch(r"[^.\s]+(\.[^.\s]+)*", self.list_key):
            problems.append(_not_allowed("list_key", self.list_key, "keys separated by dots, such as data.items"))
        if self.boolean_format not in dialect.BOOLEAN_FORMATS:
            allowed = ", ".join(dialect.BOOLEAN_FORMATS)
            problems.append(_not_allowed("boolean_format", self.boolean_format, f"{allowed}"))
        if self.update_method not in dialect.UPDATE_METHODS:
            allowed = ", ".join(dialect.UPDATE_METHODS)
            problems.append(_not_allowed("update_method", self.update_method, f"{allowed}"))
        if problems:
            raise AnalyticsConfigError(problems, self.source)

    @property
    def host(self) -> str:
        """Host and port of the service, for messages."""
        return urlsplit(self.base_url).netloc

    @property
    def where(self) -> str:
        """Service and origin of the settings, for errors."""
        return f"{self.base_url}, {self.source}"

    @property
    def client_cert_paths(self) -> tuple[str, ...]:
        """Paths of the client certificate and, if it is another file, of its key."""
        return tuple(path.strip() for path in self.client_cert.split(",", 1)) if self.client_cert else ()

    @property
    def boolean_texts(self) -> tuple[str, str]:
        """The texts for false and true."""
        return dialect.BOOLEAN_FORMATS[self.boolean_format]


def _not_allowed(name: str, value: object, allowed: str) -> str:
    return f"{refused(name, value, allowed)}."


def base_url(text: str, allow_insecure_http: bool = False) -> str:
    """Return the base URL without a trailing slash.

    :raises ValueError: if it is invalid.
    """
    text = text.strip()
    if not text:
        raise ValueError(f"The Base URL is missing; enter it {_EXAMPLE_URLS}.")
    # The message omits parts that may be secret: a user with a password, a query, a fragment.
    shown = "(value not shown)" if re.search("[?#]", text) else repr(text.rpartition("@")[2])
    try:
        url = urlsplit(text if "://" in text else f"https://{text}")
        port = url.port
    except ValueError:
        raise ValueError(f"Base URL {shown} is not a URL; enter it {_EXAMPLE_URLS}.") from None
    if "@" in url.netloc:
        raise ValueError("The Base URL contains a user name or password; enter the API key in the field API key.")
    if url.scheme not in ("http", "https"):
        raise ValueError(
            f"Base URL {shown} has the scheme {url.scheme!r}; allowed: https, http. Enter it {_EXAMPLE_URLS}."
        )
    if re.search("[?#]", text):
        raise ValueError(f"Base URL {shown} contains a query or a fragment; enter it {_EXAMPLE_URLS}.")
    hostname = url.hostname or ""
    if (
        hostname in ("http", "https")
        or not all(hostname.rstrip(".").split("."))
        or port == 0
        or not is_plain(text)
        or re.search(r"[\s\\]|%(?![0-9A-Fa-f]{2})|^https?:(?!//)", text)
    ):
        raise ValueError(f"Base URL {shown} is not a URL; enter it {_EXAMPLE_URLS}.")
    path = url.path.rstrip("/")
    if f"{dialect.API_PREFIX}/" in f"{path}/".lower():
        raise ValueError(f"Base URL {shown} contains {dialect.API_PREFIX}, which is added automatically; remove it.")
    if url.scheme == "http" and not allow_insecure_http and not is_loopback(hostname):
        raise ValueError(
            f"Base URL {shown} would send the key in clear text; use https, or set the extra allow_insecure_http."
        )
    return SplitResult(url.scheme, url.netloc, path, "", "").geturl()


def is_loopback(hostname: str) -> bool:
    """Return whether a host name or address is always this machine."""
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return hostname == "localhost"


def _api_key(text: str) -> str:
    key = text.strip()
    if not key:
        raise ValueError("The API key is missing.")
    if key == "***":
        raise ValueError(
            "The API key is '***', Airflow's mask for a secret, which was saved in place of the key. "
            "Enter the key itself."
        )
    # These messages are logged and displayed, so they omit the value.
    if key.lower().startswith("bearer "):
        raise ValueError("The API key begins with 'Bearer', which is added automatically; enter the key alone.")
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise ValueError("The API key contains a space, a line break or a non-ASCII character; copy it again.")
    return key


def _verify_problems(verify: bool | str) -> list[str]:
    if not isinstance(verify, str):
        return []
    if not (verify and Path(verify).exists()):
        return [_not_allowed("verify", verify, "true, false or an existing CA file")]
    try:
        ssl.create_default_context(cafile=None if Path(verify).is_dir() else verify)
    except (ssl.SSLError, OSError) as error:
        return [f"verify={verify!r} is no CA bundle in PEM format: {_reason(error)}."]
    return []


def _client_cert_problems(paths: Sequence[str]) -> list[str]:
    allowed = "the path of a certificate with its key in PEM format, or the paths of both, separated by a comma"
    missing = [f"client_cert={path!r} is no file; allowed: {allowed}." for path in paths if not Path(path).is_file()]
    if missing or not paths:
        return missing
    try:
        # With an encrypted key, OpenSSL would prompt for a password on the terminal.
        context = ssl.create_default_context()
        context.load_cert_chain(paths[0], paths[1] if len(paths) > 1 else None, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        return [f"client_cert={', '.join(paths)!r} cannot be used: {_reason(error)}; allowed: {allowed}."]
    return []


def _reason(error: OSError) -> str:
    return re.sub(r"^\[\S+( \S+)?\] | \(_ssl\.c:\d+\)$", "", error.strerror or str(error))


def _proxy_problems(proxies: Mapping[str, str]) -> list[str]:
    allowed = 'a JSON object such as {"https": "http://proxy.example.com:3128"}'
    return [
        _not_allowed("proxies: the entry", scheme, allowed)
        for scheme, url in proxies.items()
        if not isinstance(url, str) or "://" not in url or not re.match(r"^(https?|all)(://|$)", str(scheme))
    ]


#: Headers that the client sets for each request.
_OWN_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)


def _header_problems(headers: Mapping[str, str]) -> list[str]:
    # The messages omit the values, which may be secrets.
    problems = []
    for name, value in headers.items():
        if not isinstance(name, str) or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            problems.append(_not_allowed("headers: the name", name, "the name of an HTTP header"))
        elif name.lower() == "authorization":
            problems.append(
                "headers: Authorization is not allowed, as it carries the API key; a proxy in front of the service "
                "must read another header, such as Proxy-Authorization."
            )
        elif name.lower() in _OWN_HEADERS:
            problems.append(f"headers: {name} is not allowed, as the client sets it.")
        elif not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value):
            allowed = "one line of printable ASCII text"
            problems.append(_not_allowed(f"headers: the value of {name}", NOT_SHOWN, allowed))
    return problems
