# SPDX-License-Identifier: Apache-2.0
"""The sandbox as an ASGI application: it records requests, applies faults, and responds."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from airflow_provider_analytics.sandbox.faults import Fault, FaultQueue
from airflow_provider_analytics.sandbox.requests import RecordedRequest, operations_at
from airflow_provider_analytics.sandbox.service import Options, Service
from airflow_provider_analytics.sandbox.store import Store

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_NO_FAULT = Fault()


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


async def _disconnected_within(receive: Receive, seconds: float) -> bool:
    """Wait up to ``seconds``, and return whether the client disconnected."""
    try:
        async with asyncio.timeout(seconds):
            await receive()  # the body was read, so that nothing but the end of the connection follows
    except TimeoutError:
        return False
    return True
