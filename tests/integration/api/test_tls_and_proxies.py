# SPDX-License-Identifier: Apache-2.0
"""Certificates, and proxies of the settings and the environment (``api/transport.py``, ``api/settings.py``)."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from certificates import Authority
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from local_airflow import free_port
from raw_server import RawServer, Reply, http
from wire_client import KEY, client_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.connection_errors import _problem
from airflow_provider_analytics.exceptions import AmbiguousWriteError, AnalyticsConfigError, AnalyticsConnectionError

RECORD = http(200, {"id": 7})
PROXY_VARIABLES = [
    name for lower in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (lower, lower.upper())
]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXY_VARIABLES, "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secure(authority: Authority) -> Iterator[RawServer]:
    with RawServer([RECORD], tls=authority.server_context("127.0.0.1")) as server:
        yield server


def get(client: AnalyticsClient) -> object:
    return client.get_website(7)


def create(client: AnalyticsClient) -> object:
    return client.create_website("a.example")


def failure(
    url: str,
    match: str,
    call: Callable[[AnalyticsClient], object] = get,
    *,
    transient: bool = False,
    requests: int = 1,
    **settings: Any,
) -> str:
    """Return the message of a call that fails before it is sent, after this number of attempts."""
    with client_of(url, **settings) as client:
        with pytest.raises(AnalyticsConnectionError, match=match) as caught:
            call(client)
        assert (caught.value.sent, caught.value.transient, client.stats.requests) == (False, transient, requests)
    return str(caught.value)


@pytest.mark.parametrize("call", [get, create])
def test_certificate_of_an_unknown_authority_is_rejected_by_default(
    secure: RawServer, call: Callable[[AnalyticsClient], object]
) -> None:
    failure(secure.url, r"is not trusted \(.*\)\.\sSet the extra verify to the CA bundle", call)
    assert secure.requests == []


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", None])
def test_ca_of_the_environment_is_used_and_verification_can_be_disabled(
    secure: RawServer, authority: Authority, variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, str(authority.path))
    with client_of(secure.url, verify=variable is not None) as client:
        assert client.get_website(7) == {"id": 7}


def test_ca_of_the_settings_takes_precedence_over_the_environment(
    secure: RawServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(Authority(tmp_path).path))
    with client_of(secure.url, verify=str(authority.path)) as client:
        assert client.get_website(7) == {"id": 7}
    assert secure.requests[0].headers["authorization"] == f"Bearer {KEY}"
    failure(secure.url, "No CA of the file in the environment .* Set the extra verify")
    shown = failure(secure.url, "No CA of the extra verify", verify=str(Authority(tmp_path).path))
    assert "Set the extra verify" not in shown


@pytest.mark.parametrize(
    ("options", "transient", "message"),
    [
        ({"host": "stats.example.com"}, False, "is for another host"),
        # The service renews it, and a retry of the task succeeds.
        ({"expired": True}, True, r"has expired\.\sThe service has to renew it"),
        ({"hours": 5}, True, r"is not valid yet\.\sCheck the clock of the worker"),
        (
            {"key": rsa.generate_private_key(65537, 1024)},
            False,
            r"has a weak key or signature \(EE certificate key too weak\)",
        ),
    ],
    ids=["another host", "expired", "not valid yet", "weak key"],
)
def test_remedy_of_a_rejected_certificate_fits_its_cause(
    authority: Authority, options: dict[str, Any], transient: bool, message: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(*authority.server_files(**{"host": "127.0.0.1", **options}))
    with RawServer(RECORD, context) as server:
        attempts = 4 if transient else 1
        shown = failure(server.url, message, transient=transient, requests=attempts, verify=str(authority.path))
        assert server.requests == []
    assert "Set the extra verify" not in shown


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("self-signed certificate in certificate chain", "is not trusted"),
        ("self signed certificate", "is not trusted"),
        ("unable to get issuer certificate", "is not trusted"),
        ("CA certificate key too weak", "has a weak key or signature"),
        ("CA signature digest algorithm too weak", "has a weak key or signature"),
        ("certificate revoked", "was rejected: certificate revoked."),
        ("unsuitable certificate purpose", "was rejected: unsuitable certificate purpose"),
        ("path length constraint exceeded", "was rejected: path length constraint exceeded"),
    ],
)
def test_each_reason_of_a_rejected_certificate_has_its_own_remedy(reason: str, message: str) -> None:
    cause = ssl.SSLCertVerificationError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {reason}")
    cause.verify_message = reason
    text, is_transient = _problem(urllib3.exceptions.SSLError(cause))
    shown = text.format(host="h", cause=reason, trust="Set the extra verify.")
    assert message in shown
    assert ("extra verify." in shown) == ("not trusted" in shown)
    assert not is_transient


def _write(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def test_unusable_ca_file_is_named_with_its_form(authority: Authority, tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(authority.path.read_bytes())
    _, key = authority.server_files("127.0.0.1")
    files = {
        "is not in PEM format": certificate.public_bytes(serialization.Encoding.DER),
        "contains no certificate": key.read_bytes(),
        "is empty": b"\n",
        "is cut off": authority.path.read_bytes()[:200],
    }
    for number, (why, content) in enumerate(files.items()):
        path = _write(tmp_path, f"{number}.pem", content)
        with pytest.raises(AnalyticsConfigError, match=rf"verify='{path}' cannot be used: .*{why}.* in PEM format"):
            client_of("https://127.0.0.1:9", verify=path)


def test_unusable_client_certificate_is_named_with_its_problem(authority: Authority, tmp_path: Path) -> None:
    certificate, key = map(str, authority.client_files())
    _, other = authority.server_files("127.0.0.1")
    loaded: Any = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    pkcs8 = loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    problems = {
        f"{certificate},{other}": "the key does not belong to the certificate",
        certificate: "the private key is missing",
        f"{certificate},{_write(tmp_path, 'encrypted.pem', pkcs8)}": "the key is encrypted",
        f"{_write(tmp_path, 'empty.pem', b'')},{key}": "empty.pem is empty",
        key: "contains no certificate",
    }
    for paths, problem in problems.items():
        with pytest.raises(AnalyticsConfigError, match=f"client_cert=.* cannot be used: .*{problem}"):
            client_of("https://127.0.0.1:9", client_cert=paths)


def test_certificate_that_only_python_3_13_rejects_is_named(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strict_context(*arguments: Any, **options: Any) -> ssl.SSLContext:
        context = urllib3.util.ssl_.create_urllib3_context(*arguments, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 sets it
        return context

    monkeypatch.setattr("urllib3.connection.create_urllib3_context", strict_context)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server_files("127.0.0.1", is_strict=False))
    with RawServer(RECORD, context) as server:
        missing = r"as Python 3\.13 requires \(Missing Authority Key Identifier"
        failure(server.url, missing, verify=str(authority.path))


@pytest.mark.parametrize("scheme", ["socks5", "socks4"])
def test_socks_proxy_that_is_down_is_named(scheme: str) -> None:
    proxy = f"127.0.0.1:{free_port()}"
    failure(
        "http://127.0.0.2:9",
        f"The proxy {proxy} did not pass the request on to 127.0.0.2:9: Connection refused",
        create,
        transient=True,
        allow_insecure_http=True,
        max_retries=0,
        proxies={"http": f"{scheme}://{proxy}"},
    )


@pytest.mark.parametrize("files", ["one", "two"])
def test_client_certificate_is_presented(authority: Authority, tmp_path: Path, files: str) -> None:
    certificate, key = authority.client_files()
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    shown = str(both) if files == "one" else f"{certificate},{key}"
    context = authority.server_context("127.0.0.1", asks_clients=True)
    with RawServer([RECORD], tls=context) as server:
        with client_of(server.url, verify=str(authority.path), client_cert=shown) as client:
            assert client.get_website(7) == {"id": 7}
        with (
            client_of(server.url, verify=str(authority.path), max_retries=0) as client,
            pytest.raises(AnalyticsConnectionError, match=r"client_cert|closed the connection"),
        ):
            client.get_website(7)


def test_http_to_a_server_with_tls_names_https(secure: RawServer) -> None:
    with (
        client_of(secure.url.replace("https", "http"), max_retries=0) as client,
        pytest.raises(AnalyticsConnectionError, match="https"),
    ):
        client.get_website(7)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak https on this port"),
        # The server ends the handshake with the alert "internal error".
        (b"\x15\x03\x03\x00\x02\x02\x50", r"TLS to 127.0.0.1:\d+ failed: .*INTERNAL_ERROR"),
    ],
    ids=["http", "alert"],
)
def test_handshake_that_fails_is_not_retried(answer: bytes, problem: str) -> None:
    def end_the_handshake() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=end_the_handshake)
        thread.start()
        failure(f"https://127.0.0.1:{listener.getsockname()[1]}", problem)
        thread.join()


def test_missing_ca_file_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secure: RawServer) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(AnalyticsConfigError, match=r"verify=.*missing\.pem"):
        client_of(secure.url, verify=missing)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", missing)
    failure(secure.url, r"cannot be sent.*missing\.pem", create)


@pytest.mark.parametrize("host", ["*.example.com", f"{'a' * 70}.example.com"])
def test_unusable_host_is_an_error_of_this_package(host: str) -> None:
    with client_of(f"https://{host}") as client:
        with pytest.raises(AnalyticsConnectionError, match="not a valid address") as caught:
            client.get_account()
        assert (caught.value.sent, caught.value.transient, client.stats.retries) == (False, False, 0)


@pytest.mark.parametrize("variables", [[], ["http_proxy"], ["HTTP_PROXY"], ["all_proxy"], ["http_proxy", "no_proxy"]])
def test_proxy_of_the_settings_or_the_environment_is_used(
    variables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_used = "no_proxy" not in variables
    with RawServer(RECORD) as proxy:
        for name in variables:
            monkeypatch.setenv(name, "stats.example.invalid" if name == "no_proxy" else proxy.url)
        proxies = {} if variables else {"http": proxy.url}
        url = "http://stats.example.invalid"
        with client_of(url, allow_insecure_http=True, max_retries=0, proxies=proxies) as client:
            if is_used:
                assert client.get_website(7) == {"id": 7}
            else:
                with pytest.raises(AnalyticsConnectionError, match="cannot be reached"):
                    client.get_website(7)
        assert [request.target for request in proxy.requests] == [f"{url}/api/v1/websites/7"] * is_used


def test_proxy_of_the_environment_gets_no_loopback_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own loopback address is another machine, and the key would be sent in clear text."""
    with RawServer([RECORD]) as proxy, RawServer([RECORD]) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        with client_of(server.url) as client:
            client.get_website(7)
        assert (proxy.connections, len(server.requests)) == (0, 1)


def test_create_is_unsent_if_the_proxy_rejects_the_tunnel() -> None:
    with RawServer([Reply(http(403), then="close")]) as proxy:
        rejected = r"The proxy 127.* did not pass .*failed: 403"
        failure("https://stats.example.test", rejected, create, proxies={"https": proxy.url})
        assert proxy.sent == ["CONNECT stats.example.test:443"]


def test_create_lost_by_a_proxy_is_not_retried() -> None:
    """urllib3 reports a proxy that disconnects after the request like an unreachable proxy."""
    with RawServer(Reply(then="close")) as proxy:
        client = client_of("http://stats.example.test", allow_insecure_http=True, proxies={"http": proxy.url})
        with client, pytest.raises(AmbiguousWriteError):
            client.create_website("a.example")
        assert [request.method for request in proxy.requests] == ["POST"]
