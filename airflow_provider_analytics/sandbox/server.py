# SPDX-License-Identifier: Apache-2.0
"""The sandbox as an HTTP server in a thread of this process."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import ssl
import threading
from os import PathLike, fspath
from typing import Any, Self

try:
    import uvicorn

    from airflow_provider_analytics.sandbox.app import App
    from airflow_provider_analytics.sandbox.service import Options
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing not in {"pydantic", "starlette", "uvicorn"}:
        raise
    msg = f"The sandbox needs {missing}. Run: pip install starlette uvicorn"
    raise ModuleNotFoundError(msg, name=missing) from error

from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.store import Website

CONNECTION_VARIABLE = "AIRFLOW_CONN_ANALYTICS_DEFAULT"

_START_SECONDS = 10


class SandboxServer:
    """A stateful local server that implements the interface, for tests and demonstrations.

    Use it as a context manager::

        with SandboxServer() as sandbox:
            sandbox.seed(250)
            requests.get(f"{sandbox.url}/api/v1/websites", headers={"Authorization": f"Bearer {sandbox.api_key}"})

    :param host: address to listen on; loopback by default.
    :param port: port to listen on; 0 chooses a free port.
    :param api_key: API key that clients must send; random by default.
    :param root: sub-path of the base URL, such as ``/app``.
    :param ssl_certfile: certificate (PEM) for TLS; requires ``ssl_keyfile``.
    :param ssl_keyfile: private key (PEM) of the certificate.
    :param ssl_ca_certs: CA (PEM) that must have signed the certificate of every client.
    :param options: initial :class:`~airflow_provider_analytics.sandbox.service.Options`, by name.
    """

    _app_type: type[App] = App
    _options_type: type[Options] = Options

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str | None = None,
        root: str = "",
        ssl_certfile: str | PathLike[str] | None = None,
        ssl_keyfile: str | PathLike[str] | None = None,
        ssl_ca_certs: str | PathLike[str] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.api_key = api_key or secrets.token_hex(16)
        self._address = (host, port)
        self._root = root.rstrip("/")
        self._tls: dict[str, Any] = {}
        if ssl_certfile:
            self._tls["ssl_certfile"] = ssl_certfile
            self._tls["ssl_keyfile"] = ssl_keyfile
        if ssl_ca_certs:
            self._tls["ssl_ca_certs"] = fspath(ssl_ca_certs)
            self._tls["ssl_cert_reqs"] = ssl.CERT_REQUIRED
        self._options = self._options_type().changed(options or {})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start listening; return when the server accepts requests.

        :raises OSError: if the address cannot be used.
        """
        app = self._app_type(self.api_key, self._options, self._root)
        server = _Uvicorn(self._config(app))
        app.transport_of = server.transport_of
        listener = self._listen()
        self._app = app
        self._server = server
        self._port = listener.getsockname()[1]
        self._thread = threading.Thread(target=server.run, args=[[listener]], name="analytics-sandbox", daemon=True)
        self._thread.start()
        if not server.ready.wait(_START_SECONDS):
            msg = f"the sandbox did not start listening within {_START_SECONDS} s"
            raise RuntimeError(msg)

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        listener = socket.create_server(self._address, family=family)
        # Connections inherit the option. asyncio sets it only on sockets created with an explicit protocol number.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener

    def _config(self, app: App) -> uvicorn.Config:
        config = uvicorn.Config(
            app,
            # The default depends on the installed packages.
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
            **self._tls,
        )
        config.load()
        return config

    def stop(self) -> None:
        """Abort open connections and stop listening."""
        self._server.should_exit = True
        self._thread.join()

    @property
    def url(self) -> str:
        """Base URL without a trailing slash."""
        host = self._address[0]
        scheme = "https" if self._tls else "http"
        if ":" in host:
            host = f"[{host}]"
        return f"{scheme}://{host}:{self._port}{self._root}"

    def connection_json(self) -> str:
        """Return the Airflow connection to this server as JSON."""
        connection = {"conn_type": "analytics", "host": self.url, "password": self.api_key}
        return json.dumps(connection)

    @property
    def connection_env(self) -> dict[str, str]:
        """Environment variable that defines this server as Airflow's connection ``analytics_default``."""
        return {CONNECTION_VARIABLE: self.connection_json()}

    def reset(self) -> None:
        """Remove all websites, faults, and recorded requests, and restore the initial options."""
        self._app.reset()

    def seed(self, count: int, seed: int = 7) -> None:
        """Add ``count`` generated websites, repeatable by ``seed``."""
        self._app.store.seed(count, seed)

    def add_website(self, domain: str, **settings: Any) -> Website:
        """Add a website without a request and return it, even if its domain is taken.

        :param settings: its fields as a service returns them, such as ``privacy=1`` and ``exclude_ips="192.0.2.1"``.
        """
        return dict(self._app.store.add(domain, **settings))

    def change_website(self, website_id: int, **settings: Any) -> Website | None:
        """Change a website without a request and return it, or None if it does not exist."""
        website = self._app.store.update(website_id, settings)
        return website and dict(website)

    def remove_website(self, website_id: int) -> bool:
        """Delete a website without a request; return False if it does not exist."""
        return self._app.store.delete(website_id) is not None

    def websites(self) -> list[Website]:
        """Return all websites, oldest first, without passwords."""
        return [dict(website) for website in self._app.store.websites()]

    def stored_password(self, website_id: int) -> str | None:
        """Return the stored password of a website; responses never contain it."""
        return self._app.store.password(website_id)

    @property
    def options(self) -> Options:
        """Current options."""
        return self._app.options

    def configure(self, **options: Any) -> None:
        """Change options until the next :meth:`reset`.

        :raises ValueError: for an unknown name or a bad value.
        """
        self._app.options = self._app.options.changed(options)

    def fault(self, operation: str = "any", **fields: Any) -> None:
        """Add a fault to the next requests of an operation.

        :param fields: fields of :class:`~airflow_provider_analytics.sandbox.faults.Fault`.
        :raises ValueError: for an unknown field or a bad value.
        """
        fault = self._app.fault_type(operation=operation, **fields)
        self._app.faults.add(fault)

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._app.faults.clear()

    @property
    def requests(self) -> list[RecordedRequest]:
        """Requests since the last :meth:`reset` or :meth:`clear_requests`, in order of arrival."""
        return list(self._app.requests)

    def clear_requests(self) -> None:
        """Remove the recorded requests."""
        self._app.requests.clear()


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that sets an event when it is ready and does not wait for clients when it stops."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    def transport_of(self, client: tuple[str, int]) -> asyncio.Transport | None:
        for connection in self.server_state.connections:
            transport = connection.transport
            if transport.get_extra_info("peername")[:2] == client:
                return transport
        return None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await super().shutdown(sockets)
