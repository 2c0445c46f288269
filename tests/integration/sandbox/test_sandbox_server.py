"""The server as an object: addresses, TLS, sub-path, generated websites, recorded requests, start and stop."""

from __future__ import annotations

import contextlib
import datetime
import gc
import http.client
import ipaddress
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
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
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
    for extension, critical in ((address, False), (x509.BasicConstraints(ca=True, path_length=0), True)):
        builder = builder.add_extension(extension, critical)
    certfile, keyfile = (tmp_path_factory.mktemp("tls") / name for name in ("cert.pem", "key.pem"))
    pem = serialization.Encoding.PEM
    certfile.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
    keyfile.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return certfile, keyfile


def test_the_connection_is_what_airflow_reads(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.common.compat.sdk import BaseHook

    [(variable, value)] = analytics_sandbox.connection_env.items()
    monkeypatch.setenv(variable, value)
    found = BaseHook.get_connection("analytics_default")
    expected = ("analytics", analytics_sandbox.url, analytics_sandbox.api_key)
    assert (found.conn_type, found.host, found.password) == expected


# Start and stop


def test_two_servers_know_nothing_of_each_other_and_may_be_stopped_twice() -> None:
    with SandboxServer() as one, SandboxServer() as other:
        one.add_website("a.example")
        assert (one.api_key, one.url) != (other.api_key, other.url)
        assert (get(one).status_code, other.websites()) == (200, [])
        one.stop()
        with pytest.raises(requests.ConnectionError):
            get(one)


def test_stopping_does_not_wait_for_an_answer_under_way() -> None:
    sandbox = SandboxServer()
    sandbox.start()
    sandbox.fault("account", delay=600)
    connection = http.client.HTTPConnection(urlsplit(sandbox.url).netloc, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/api/v1/account")
        assert any(sandbox.requests or get(sandbox, "/_sandbox/requests").json() for _ in range(1000))
        stopping = threading.Thread(target=sandbox.stop)
        stopping.start()
        stopping.join(60)
        assert not stopping.is_alive()


def test_an_address_in_use_or_a_wrong_certificate_is_an_error_and_leaves_nothing_open(
    analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    port = urlsplit(analytics_sandbox.url).port
    assert port is not None
    with pytest.raises(OSError, match="in use"):
        SandboxServer(port=port).start()
    with pytest.raises(OSError, match="No such file"):
        SandboxServer(ssl_certfile=tmp_path / "none.pem").start()
    # A connection or socket left open would warn here.
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


def test_tls_and_faults_through_it(certificate: tuple[Path, Path]) -> None:
    certfile, keyfile = certificate
    with SandboxServer(ssl_certfile=certfile, ssl_keyfile=keyfile) as sandbox:
        assert sandbox.url.startswith("https://127.0.0.1:")
        assert get(sandbox, verify=str(certfile)).status_code == 200
        with pytest.raises(requests.exceptions.SSLError):
            get(sandbox)
        context = ssl.create_default_context(cafile=certfile)
        for fault in ({"drop": True}, {"headers": {"Content-Length": "100000"}}):
            sandbox.fault(**fault)
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


def test_requests_are_recorded_byte_by_byte(analytics_sandbox: SandboxServer) -> None:
    body = b"domain=a.example&exclude_ips=192.0.2.1%0A192.0.2.2"
    headers: dict[str, str | bytes] = {
        "Authorization": f"Bearer {analytics_sandbox.api_key}",
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Mark": "Ünïcode".encode(),
    }
    url = f"{analytics_sandbox.url}/api/v1/websites?a=%20b&a=c"
    requests.post(url, data=body, headers=headers, allow_redirects=False, timeout=10)
    (request,) = analytics_sandbox.requests
    assert (request.operation, request.method, request.path) == ("create", "POST", "/api/v1/websites")
    assert request.target == "/api/v1/websites?a=%20b&a=c"
    assert request.query == [("a", " b"), ("a", "c")]
    assert request.body == body
    assert request.form == [("domain", "a.example"), ("exclude_ips", "192.0.2.1\n192.0.2.2")]
    assert (b"x-mark", "Ünïcode".encode()) in request.headers
    assert (request.header("Authorization"), request.header("X-Nothing")) == (headers["Authorization"], None)
    assert (request.authorized, request.status) == (True, 302)
    assert analytics_sandbox.api_key not in repr(request)
    analytics_sandbox.clear_requests()
    assert analytics_sandbox.requests == []


# Websites


def seeded(sandbox: SandboxServer, count: int, seed: int) -> list[dict[str, Any]]:
    sandbox.reset()
    sandbox.seed(count, seed)
    return sandbox.websites()


def test_the_same_seed_generates_the_same_websites_whatever_their_number(analytics_sandbox: SandboxServer) -> None:
    twenty = seeded(analytics_sandbox, 20, 7)
    assert seeded(analytics_sandbox, 20, 7) == twenty
    assert seeded(analytics_sandbox, 5, 7) == twenty[:5]
    assert seeded(analytics_sandbox, 5, 8) != twenty[:5]
    analytics_sandbox.seed(20, 8)
    assert len({website["domain"] for website in analytics_sandbox.websites()}) == 25


def test_generated_websites_are_a_realistic_mixture_of_reserved_names(analytics_sandbox: SandboxServer) -> None:
    websites = seeded(analytics_sandbox, 500, 7)
    assert {website["privacy"] for website in websites} == {0, 1, 2}
    for website in websites:
        assert (analytics_sandbox.stored_password(website["id"]) is not None) == (website["privacy"] == 2)
    for name in ("favorite", "email", "exclude_bots"):
        assert {bool(website[name]) for website in websites} == {True, False}
    for name in ("exclude_ips", "exclude_params"):
        assert 0 < sum(website[name] is None for website in websites) < 500
        assert any("\n" in (website[name] or "") for website in websites)
    created = [website["created_at"] for website in websites]
    assert created == sorted(created)
    assert all(".example" in website["domain"] for website in websites)
    addresses = {ip for website in websites for ip in (website["exclude_ips"] or "").splitlines()}
    assert all(ip.startswith(("192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:")) for ip in addresses)


def test_websites_are_added_changed_and_removed_without_a_request(analytics_sandbox: SandboxServer) -> None:
    first = analytics_sandbox.add_website("bücher.example", exclude_ips="")
    assert (first["id"], first["exclude_ips"]) == (1, None)
    assert analytics_sandbox.add_website("BÜCHER.example")["id"] == 2
    assert analytics_sandbox.change_website(1, email=1) == analytics_sandbox.websites()[0] == {**first, "email": 1}
    assert [analytics_sandbox.remove_website(number) for number in (2, 2)] == [True, False]
    assert analytics_sandbox.add_website("a.example")["id"] == 3
    assert (analytics_sandbox.change_website(7, email=1), analytics_sandbox.stored_password(7)) == (None, None)
    with pytest.raises(ValueError, match="colour"):
        analytics_sandbox.add_website("b.example", colour="red")
    with pytest.raises(ValueError, match="colour"):
        analytics_sandbox.change_website(1, colour="red")
    assert analytics_sandbox.requests == []


def test_several_threads_may_use_it(analytics_sandbox: SandboxServer) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: analytics_sandbox.add_website(f"site-{number}.example"), range(100)))
    assert [website["id"] for website in analytics_sandbox.websites()] == list(range(1, 101))
