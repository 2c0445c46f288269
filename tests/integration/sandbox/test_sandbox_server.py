"""The server as an object: addresses, TLS, sub-path, database, log, start and stop."""

from __future__ import annotations

import contextlib
import datetime
import gc
import http.client
import ipaddress
import json
import socket
import ssl
import statistics
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from airflow_provider_analytics.sandbox.server import SandboxServer


def get(sandbox: SandboxServer, path: str = "/api/v1/account", **arguments: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {sandbox.api_key}", "Accept": "application/json"}
    return requests.get(sandbox.url + path, headers=headers, timeout=10, **arguments)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key, as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sandbox")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    certfile, keyfile = folder / "cert.pem", folder / "key.pem"
    certfile.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    keyfile.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certfile, keyfile


def test_the_connection_is_what_airflow_reads(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.common.compat.sdk import BaseHook

    [(variable, value)] = analytics_sandbox.connection_env.items()
    monkeypatch.setenv(variable, value)
    connection = BaseHook.get_connection("analytics_default")
    assert (connection.conn_type, connection.host, connection.password) == (
        "analytics",
        analytics_sandbox.url,
        analytics_sandbox.api_key,
    )


def test_starts_and_stops_quickly() -> None:
    started = time.monotonic()
    with SandboxServer() as sandbox:
        assert get(sandbox).status_code == 200
    assert time.monotonic() - started < 1


def test_two_servers_know_nothing_of_each_other() -> None:
    with SandboxServer() as one, SandboxServer() as other:
        one.add_website("a.example")

        assert one.api_key != other.api_key
        assert one.url != other.url
        assert other.websites() == []


def test_stopping_does_not_wait_for_an_answer_under_way() -> None:
    sandbox = SandboxServer()
    sandbox.start()
    sandbox.fault(delay=60)
    connection = http.client.HTTPConnection(urlsplit(sandbox.url).netloc, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/api/v1/account")
        started = time.monotonic()
        sandbox.stop()
    assert time.monotonic() - started < 2


def test_a_stopped_server_refuses_connections_and_may_be_stopped_again() -> None:
    with SandboxServer() as sandbox:
        sandbox.stop()

        with pytest.raises(requests.ConnectionError):
            get(sandbox)


def test_an_address_in_use_is_an_error_and_leaves_nothing_open(analytics_sandbox: SandboxServer) -> None:
    port = urlsplit(analytics_sandbox.url).port
    assert port is not None

    with pytest.raises(OSError, match="in use"):
        SandboxServer(port=port).start()
    # A connection or socket left open would warn here.
    gc.collect()


def test_a_wrong_certificate_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        SandboxServer(ssl_certfile=tmp_path / "none.pem").start()
    gc.collect()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6() -> None:
    try:
        with SandboxServer(host="::1") as sandbox:
            assert sandbox.url.startswith("http://[::1]:")
            sandbox.fault(drop=True)
            with pytest.raises(requests.ConnectionError):
                get(sandbox)
            assert get(sandbox).status_code == 200
    except OSError as error:
        if isinstance(error, requests.RequestException):
            raise
        pytest.skip(f"no IPv6 here: {error}")


def test_tls(certificate: tuple[Path, Path]) -> None:
    certfile, keyfile = certificate
    with SandboxServer(ssl_certfile=certfile, ssl_keyfile=keyfile) as sandbox:
        assert sandbox.url.startswith("https://127.0.0.1:")
        assert get(sandbox, verify=str(certfile)).status_code == 200
        with pytest.raises(requests.exceptions.SSLError):
            get(sandbox)


@pytest.mark.parametrize("fault", [{"drop": True}, {"headers": {"Content-Length": "100000"}}])
def test_faults_through_tls(certificate: tuple[Path, Path], fault: dict[str, Any]) -> None:
    certfile, keyfile = certificate
    with SandboxServer(ssl_certfile=certfile, ssl_keyfile=keyfile) as sandbox:
        sandbox.fault(**fault)
        context = ssl.create_default_context(cafile=certfile)
        connection = http.client.HTTPSConnection(urlsplit(sandbox.url).netloc, timeout=10, context=context)
        with contextlib.closing(connection):
            connection.request("GET", "/api/v1/account", headers={"Authorization": f"Bearer {sandbox.api_key}"})
            with pytest.raises((OSError, http.client.IncompleteRead)):
                connection.getresponse().read()


def test_a_sub_path() -> None:
    with SandboxServer(root="/app/") as sandbox:
        sandbox.seed(30)

        assert sandbox.url.endswith("/app")
        assert get(sandbox).status_code == 200
        links = get(sandbox, "/api/v1/websites?per_page=10").json()["links"]
        assert links["next"] == f"{sandbox.url}/api/v1/websites?per_page=10&page=2"
        origin = sandbox.url.removesuffix("/app")
        assert requests.get(f"{origin}/api/v1/account", timeout=10).status_code == 404
        assert len(requests.get(f"{origin}/_sandbox/websites", timeout=10).json()) == 30
        assert [request.operation for request in sandbox.requests][:2] == ["account", "list"]


def test_options_given_at_the_start_hold_after_a_reset() -> None:
    with SandboxServer(options={"paginator": "simple"}) as sandbox:
        sandbox.configure(paginator="length")
        sandbox.reset()

        assert "total" not in get(sandbox, "/api/v1/websites").json()["meta"]


def test_requests_are_recorded_byte_by_byte(analytics_sandbox: SandboxServer) -> None:
    body = b"domain=a.example&exclude_ips=192.0.2.1%0A192.0.2.2"
    requests.post(
        f"{analytics_sandbox.url}/api/v1/websites?a=%20b&a=c",
        data=body,
        headers={
            "Authorization": f"Bearer {analytics_sandbox.api_key}",
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Mark": "Ünïcode".encode(),
        },
        allow_redirects=False,
        timeout=10,
    )

    (request,) = analytics_sandbox.requests

    assert (request.operation, request.method, request.path) == ("create", "POST", "/api/v1/websites")
    assert request.target == "/api/v1/websites?a=%20b&a=c"
    assert request.query == [("a", " b"), ("a", "c")]
    assert request.body == body
    assert request.form == [("domain", "a.example"), ("exclude_ips", "192.0.2.1\n192.0.2.2")]
    assert (b"x-mark", "Ünïcode".encode()) in request.headers
    assert request.header("Authorization") == f"Bearer {analytics_sandbox.api_key}"
    assert request.header("X-Nothing") is None
    assert request.authorized
    assert analytics_sandbox.api_key not in repr(request)
    assert json.dumps(request.status) == "302"


def test_clear_requests(analytics_sandbox: SandboxServer) -> None:
    get(analytics_sandbox)
    analytics_sandbox.clear_requests()

    assert analytics_sandbox.requests == []


def test_ten_thousand_websites_are_quick(analytics_sandbox: SandboxServer) -> None:
    started = time.monotonic()
    analytics_sandbox.seed(10_000)
    seeded = time.monotonic()
    ids = []
    latencies = []
    with requests.Session() as session:
        session.headers.update({"Authorization": f"Bearer {analytics_sandbox.api_key}", "Accept": "application/json"})
        for page in range(1, 101):
            asked = time.monotonic()
            answer = session.get(f"{analytics_sandbox.url}/api/v1/websites", params={"page": page}, timeout=10)
            latencies.append(time.monotonic() - asked)
            ids += [website["id"] for website in answer.json()["data"]]

    assert ids == list(range(10_000, 0, -1))
    # Generous bounds: about 0.2 s and 2 ms on an idle machine. Answers that wait for an acknowledgement take 40 ms.
    assert seeded - started < 3
    assert statistics.median(latencies) < 0.03
