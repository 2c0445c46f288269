# SPDX-License-Identifier: Apache-2.0
"""The sandbox as an ASGI application: it records requests, applies faults, and responds.

Its control endpoints are the methods of the fixture over HTTP, for clients on this machine. They are outside the prefix
of the interface and require no API key. Requests that a web page can send are rejected.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import struct
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from airflow_provider_analytics.sandbox.faults import Fault, FaultQueue
from airflow_provider_analytics.sandbox.requests import RecordedRequest, operations_at
from airflow_provider_analytics.sandbox.service import Options, Service
from airflow_provider_analytics.sandbox.store import MAX_SEEDED, Store

PREFIX = "/_sandbox"
_LOCAL_HOST = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")
_DONE = Response(status_code=204)


class Seed(BaseModel):
    """The number and seed of the websites to generate."""

    model_config = ConfigDict(extra="forbid")

    websites: int = Field(ge=0, le=MAX_SEEDED)
    seed: int = 7


def create_control(state: App) -> Starlette:
    """Return an application with the control endpoints of a sandbox."""

    async def reset(_: Request) -> Response:
        state.reset()
        return _DONE

    async def seed(request: Request) -> Response:
        seed = Seed.model_validate_json(await request.body())
        state.store.seed(seed.websites, seed.seed)
        return _DONE

    async def websites(_: Request) -> Response:
        return JSONResponse(state.store.websites())

    async def faults(request: Request) -> Response:
        if request.method == "DELETE":
            state.faults.clear()
        else:
            state.faults.add(state.fault_type.model_validate_json(await request.body()))
        return _DONE

    async def requests(_: Request) -> Response:
        return JSONResponse(list(map(_without_secrets, state.requests)))

    methods = {reset: ["POST"], seed: ["POST"], websites: ["GET"], faults: ["POST", "DELETE"], requests: ["GET"]}
    routes = [
        Route(f"{PREFIX}/{endpoint.__name__}", endpoint, methods=allowed) for endpoint, allowed in methods.items()
    ]
    return Starlette(routes=routes, exception_handlers={ValueError: _invalid})


async def _invalid(_: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, 422)


def _without_secrets(request: RecordedRequest) -> dict[str, Any]:
    form = []
    for name, value in request.form:
        if name == "password":
            value = "***"
        form.append((name, value))
    return {
        "operation": request.operation,
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "form": form,
        "authorized": request.authorized,
        "status": request.status,
    }


_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_NO_FAULT = Fault()
_FORBIDDEN = PlainTextResponse(
    "The control endpoints accept only requests from this machine to localhost or a loopback address, and none from "
    "web pages of other servers.",
    403,
)


class App:
    """ASGI application, and the state of a sandbox: options, websites, faults, and recorded requests.

    :param options: initial options.
    :param root: sub-path of the base URL such as ``/app``, or empty.
    """

    fault_type: type[Fault] = Fault
    service_type: type[Service] = Service

    #: Returns the transport of a client, given its address and port. It is required because ASGI can neither reset a
    #: connection nor end a response early.
    transport_of: Callable[[tuple[str, int]], asyncio.Transport | None]

    def __init__(self, api_key: str, options: Options, root: str) -> None:
        self.options = self._initial_options = options
        self.faults = FaultQueue()
        self.requests: list[RecordedRequest] = []
        self.service = self.service_type(root)
        self._api_key = api_key
        self._root = root
        self._control = create_control(self)

    @property
    def store(self) -> Store:
        """The websites."""
        return self.service.store

    def reset(self) -> None:
        """Remove all websites, faults, and recorded requests, and restore the initial options."""
        self.faults.clear()
        self.options = self._initial_options
        self.service.clear()
        self.requests.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["path"].startswith(f"{PREFIX}/"):
            if _is_local(scope):
                await self._control(scope, receive, send)
            else:
                await _FORBIDDEN(scope, receive, send)
            return
        try:
            request = await self._record(Request(scope, receive))
        except ClientDisconnect:
            return
        self.requests.append(request)
        fault = await self.next_fault(request)
        response = self.process(request, fault)
        if fault.delay and await _disconnected_within(receive, fault.delay):
            return
        if fault.drop:
            self._disconnect(scope, reset=True)
            # uvicorn reports a return before the end of the response as an error, unless the client is gone.
            await receive()
            return
        request.status = response.status_code
        # A fault can announce a longer body than there is.
        announced = response.headers.get("content-length", 0)
        is_cut = int(announced) > len(response.body)

        async def send_part(message: Message) -> None:
            await send({**message, "more_body": is_cut})

        await response(scope, receive, send_part)
        if is_cut:
            self._disconnect(scope, reset=False)
            await receive()

    async def next_fault(self, request: RecordedRequest) -> Fault:
        """Return the fault that applies to a request."""
        return self.faults.take(request) or _NO_FAULT

    def process(self, request: RecordedRequest, fault: Fault) -> Response:
        """Process a request as a fault requires, and return the response."""
        real = None
        if fault.commits:
            real = self.service.respond(request, self.options)
        if fault.drift is not None:
            fault.drift.apply(self.store)
        return fault.apply(real)

    def _disconnect(self, scope: Scope, *, reset: bool) -> None:
        transport = self.transport_of(scope["client"])
        if transport is None:
            return
        if reset:
            # Without SO_LINGER, the client receives an ordinary close (FIN) instead of a reset (RST).
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            transport.abort()
        else:
            transport.close()

    async def _record(self, request: Request) -> RecordedRequest:
        url = request.url
        target = request.scope["raw_path"].decode("latin-1")
        if url.query:
            target += f"?{url.query}"
        authorization = request.headers.get("authorization", "")
        return RecordedRequest(
            operation=operations_at(url.path, self._root).get(request.method),
            method=request.method,
            target=target,
            origin=f"{url.scheme}://{url.netloc}",
            headers=request.headers.raw,
            body=await request.body(),
            authorized=authorization == f"Bearer {self._api_key}",
        )


def _is_local(scope: Scope) -> bool:
    """Return whether a request comes from this machine, and not from a web page of another server.

    The Host is checked, because a web page can let its own host name resolve to this machine.
    """
    headers = Headers(scope=scope)
    host = headers.get("host", "")
    is_from_here = ipaddress.ip_address(scope["client"][0]).is_loopback
    if not is_from_here or not _LOCAL_HOST.fullmatch(host):
        return False
    return headers.get("origin") in (None, f"{scope['scheme']}://{host}")


async def _disconnected_within(receive: Receive, seconds: float) -> bool:
    """Wait up to ``seconds``, and return whether the client disconnected."""
    try:
        async with asyncio.timeout(seconds):
            await receive()  # the body was read, so that nothing but the end of the connection follows
    except TimeoutError:
        return False
    return True
