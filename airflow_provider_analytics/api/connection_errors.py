# SPDX-License-Identifier: Apache-2.0
"""Errors of a request that got no response: causes, and what to do about each."""

from __future__ import annotations

import http.client
import re
import ssl
from dataclasses import dataclass
from typing import Any

import requests
import requests.utils
from urllib3 import exceptions

from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AnalyticsConnectionError
from airflow_provider_analytics.readable import readable

#: Maximum length of the reason of a connection error.
_MAX_REASON = 1000


_PROXY = "The proxy {proxy} did not pass the request on to {host}: {cause}. Check the extra proxies."
_TIMED_OUT = "{host} did not {missing} within {seconds:g} s. Check that the service runs, or raise the extra timeout."
_CLOSED = (
    "{host} closed the connection before it responded: {cause}. If a retry also fails, check the log of the service."
    "{https}"
)
_BAD_ADDRESS = "{host} is not a valid address: {cause}."
_TLS_FAILED = "TLS to {host} failed: {cause}."
_OTHER_HOST = "The certificate of {host} is for another host ({cause}). Check the Base URL."
#: Checks of certificates that Python 3.13 enables (VERIFY_X509_STRICT); earlier versions accept such certificates.
_STRICT = "Missing (Authority|Subject) Key|Basic Constraints of CA|key usage extension|Empty Subject|X509v3"
_NOT_STRICT = (
    "The certificate of {host}, or its CA, does not fulfill RFC 5280, as Python 3.13 requires ({cause}). "
    "Renew this certificate. Other CA files in the extra verify do not help."
)
#: OpenSSL does not find the CA among the trusted ones.
_UNKNOWN_CA = "self.signed certificate|unable to get (local )?issuer certificate|unable to verify the first certificate"
_CLIENT_CERT = f"{_TLS_FAILED} It might require a client certificate, or another one. Check the extra client_cert."
#: Errors before a response: an exception of requests or urllib3, a pattern of its innermost cause, its description, and
#: whether a retry can help. The first match counts.
_CONNECTION_ERRORS: tuple[tuple[type[Exception], str, str, bool], ...] = (
    (exceptions.ProxyError, "Tunnel connection failed: 4", _PROXY, False),
    (exceptions.ProxyError, "", _PROXY, True),
    (
        exceptions.NewConnectionError,
        "",
        "{host} cannot be reached: {cause}. Check the host and the port of the connection, and that the service runs.",
        True,
    ),
    (exceptions.TimeoutError, "", _TIMED_OUT, True),
    (
        exceptions.SSLError,
        "has expired",
        "The certificate of {host}, or of its CA, has expired. The service has to renew it, unless the clock of the "
        "worker is wrong.",
        True,
    ),
    (
        exceptions.SSLError,
        "not yet valid",
        "The certificate of {host}, or of its CA, is not valid yet. Check the clock of the worker, and the start date "
        "of the certificate.",
        True,
    ),
    (exceptions.SSLError, "mismatch", _OTHER_HOST, False),
    (exceptions.SSLError, _STRICT, _NOT_STRICT, False),
    (
        exceptions.SSLError,
        "too weak",
        "The certificate of {host}, or of its CA, has a weak key or signature ({cause}). Replace it by a certificate "
        "with a key of 2,048 bits or more and SHA-256. Another CA file in the extra verify does not help.",
        False,
    ),
    (exceptions.SSLError, _UNKNOWN_CA, "The certificate of {host} is not trusted ({cause}). {trust}", False),
    (exceptions.SSLError, "VERIFY_FAILED", "The certificate of {host} was rejected: {cause}.", False),
    (
        exceptions.SSLError,
        "WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE",
        "{host} does not speak https on this port. Write http:// in the Base URL, or the port of https.",
        False,
    ),
    (exceptions.SSLError, "CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE|EOF", _CLIENT_CERT, False),
    (exceptions.SSLError, "", _TLS_FAILED, False),
    (exceptions.LocationValueError, "", _BAD_ADDRESS, False),
    # The response to plain http is a TLS alert.
    (
        exceptions.HTTPError,
        r"\\x15\\x03",
        "{host} speaks https, not http. Write https:// in the Base URL.",
        False,
    ),
    (exceptions.HTTPError, "", _CLOSED, True),
    (requests.exceptions.InvalidURL, "", _BAD_ADDRESS, False),
    # Before the connection is opened.
    (
        Exception,
        "CA certificate bundle",
        "The request to {host} cannot be sent: {cause}. Check the environment variables REQUESTS_CA_BUNDLE and "
        "CURL_CA_BUNDLE, or set the extra verify.",
        False,
    ),
    (Exception, "", "The request to {host} cannot be sent: {cause}.", False),
)


@dataclass(frozen=True)
class Way:
    """How requests reach the service.

    :param settings: base URL and options.
    :param proxies: proxy by scheme, of the settings or the environment.
    :param verify: value of requests' parameter ``verify``.
    """

    settings: Settings
    proxies: dict[str, str]
    verify: bool | str

    def error(
        self, error: Exception, method: str, path: str, *, sent: bool, follows_success: bool
    ) -> AnalyticsConnectionError:
        """Return the typed error for an exception of requests or urllib3, with ``sent`` and ``transient`` set.

        :param sent: whether the service might have received the request.
        :param follows_success: whether a request of this client succeeded before.
        """
        proxy = requests.utils.select_proxy(self.settings.base_url, self.proxies) or ""
        is_unconnected = isinstance(error, (exceptions.NewConnectionError, exceptions.ConnectTimeoutError))
        if is_unconnected and proxy.startswith("socks"):
            # With PySocks, urllib3 raises the errors of a connection without a proxy and omits the cause.
            cause: Any = error.__context__ or error
            error = exceptions.ProxyError("", getattr(cause, "socket_err", None) or cause)
        text, is_transient = _problem(error)
        missing = "accept the connection"
        if sent:
            missing = "respond"
        https = ""
        if self.settings.base_url.startswith("http://") and not follows_success:
            https = " If it speaks https on this port, write https:// in the Base URL."
        why = text.format(
            host=self.settings.host,
            cause=describe(error),
            seconds=self.settings.timeout,
            proxy=proxy.rpartition("@")[2].rpartition("://")[2],
            missing=missing,
            https=https,
            trust=self._how_to_trust(),
        )
        problem, has_remedy, remedy = readable(why, _MAX_REASON).partition(". ")
        if has_remedy:
            problem += "."
        found = AnalyticsConnectionError(problem, method, path, sent=sent, transient=is_transient)
        found.remedy = remedy
        return found

    def _how_to_trust(self) -> str:
        """Return what to do about a certificate of an unknown CA."""
        if isinstance(self.settings.verify, str):
            return f"No CA of the extra verify ({self.settings.verify}) signed it. Add the CA to this file."
        remedy = "Set the extra verify to the CA bundle that signed it."
        if isinstance(self.verify, str):
            return f"No CA of the file in the environment ({self.verify}) signed it. {remedy}"
        return remedy


def _problem(error: Exception) -> tuple[str, bool]:
    """Return the description of an exception of requests or urllib3, and whether a retry can help."""
    cause = repr(_cause(error))
    for kind, pattern, text, is_transient in _CONNECTION_ERRORS:
        if isinstance(error, kind) and re.search(pattern, cause):
            return text, is_transient
    raise error


def _cause(error: BaseException) -> BaseException:
    """Return the innermost exception that urllib3 wrapped."""
    while True:
        inner = error.__cause__
        for argument in error.args:
            if isinstance(argument, BaseException):
                inner = argument
                break
        if inner is None:
            return error
        error = inner


def describe(error: BaseException) -> str:
    """Return a description of an exception of requests, urllib3 or Python, without object names."""
    inner = _cause(error)
    if isinstance(inner, ssl.SSLCertVerificationError):
        return inner.verify_message.rstrip(".")
    if type(inner) is http.client.BadStatusLine:
        return f"it is not an HTTP response: {readable(str(inner), 60, is_part=True)}"
    text = str(inner)
    if isinstance(inner, OSError) and inner.strerror:
        text = inner.strerror
    return readable(text, 160, is_part=True).rstrip(".") or type(inner).__name__
