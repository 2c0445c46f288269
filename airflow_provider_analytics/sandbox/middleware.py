"""ASGI middleware that records requests and injects faults."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_provider_analytics.sandbox.control import PREFIX as CONTROL_PREFIX
from airflow_provider_analytics.sandbox.faults import Answer, Fault, make_answer
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.routes import routes_of
from airflow_provider_analytics.sandbox.state import RecordedRequest, State

_OPTIONS_KEY = "analytics_sandbox.options"
_FLOOD_BYTES = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def options_for(request: Request) -> Options:
    """Return the options that :class:`FaultMiddleware` has set for a request."""
    options: Options = request.scope[_OPTIONS_KEY]
    return options


class FaultMiddleware:
    """ASGI application that wraps the service and the control endpoints.

    :param transport_of: returns the transport of a client, given its address and port. It is required because ASGI can
        neither reset a connection nor end a response early.
    """

    def __init__(
        self,
        state: State,
        service: ASGIApp,
        control: ASGIApp,
        *,
        root: str,
        transport_of: Callable[[tuple[str, int]], asyncio.Transport | None],
    ) -> None:
        self._state = state
        self._service = service
        self._control = control
        self._root = root
        self._transport_of = transport_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["path"].startswith(f"{CONTROL_PREFIX}/"):
            await self._control(scope, receive, send)
            return
        body = await _read_body(receive)
        if body is None:
            return
        request = self._record(scope, body)
        self._state.requests.append(request)
        fault = self._state.meanwhile(request) or self._state.faults.take(request.operation, request.target)
        if fault is None:
            answer = await self._process(scope, body, self._state.options)
            request.status = answer.status
            await _send_whole(send, answer)
        else:
            await self._respond_with_fault(fault, request, scope, receive, send)

    async def _respond_with_fault(
        self, fault: Fault, request: RecordedRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        real = None
        if fault.commits:
            real = await self._process(scope, request.body, self._state.options.changed(fault.options))
        if fault.drift is not None:
            fault.drift.apply(self._state.store)
        if fault.delay and await _disconnected_within(receive, fault.delay):
            return
        transport = self._transport_of(scope["client"])
        if transport is None:
            return
        if fault.drop:
            _reset(transport)
        else:
            answer = make_answer(fault, real, authorization=request.header("authorization") or "", form=request.body)
            request.status = answer.status
            if fault.head_interval:
                await _drip_head(transport, answer, fault.head_interval, receive)
                return
            if await _send_damaged(fault, answer, receive, send):
                return
            # close() sends buffered data first, unlike abort().
            transport.close()
        # uvicorn reports a return before the end of the response as an error, unless the client has disconnected.
        await _wait_for_disconnect(receive)

    async def _process(self, scope: Scope, body: bytes, options: Options) -> Answer:
        status = 0
        headers: dict[str, str] = {}
        content = b""

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, headers, content
            if message["type"] == "http.response.start":
                # Headers are never repeated in responses of the service, so a dict is sufficient.
                status = int(message["status"])
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            else:
                content += message.get("body", b"")

        await self._service({**scope, _OPTIONS_KEY: options}, receive, send)
        headers.pop("content-length", None)
        return Answer(status, headers, content)

    def _record(self, scope: Scope, body: bytes) -> RecordedRequest:
        target = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode("latin-1")
        routes = routes_of(scope["path"], self._root)
        request = RecordedRequest(
            operation=next((route.operation for route in routes if route.method == scope["method"]), None),
            method=scope["method"],
            target=target,
            headers=list(scope["headers"]),
            body=body,
        )
        scheme, _, key = (request.header("authorization") or "").partition(" ")
        request.authorized = scheme.lower() == "bearer" and key.strip() == self._state.api_key
        return request


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if the client disconnected before its end."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _drip_head(transport: asyncio.Transport, answer: Answer, interval: float, receive: Receive) -> None:
    """Send status line and headers byte by byte, bypassing the HTTP server, until the client disconnects."""
    lines = [f"HTTP/1.1 {answer.status} Sandbox", *(f"{name}: {value}" for name, value in answer.headers.items())]
    for byte in "\r\n".join(lines).encode("latin-1"):
        transport.write(bytes([byte]))
        if await _disconnected_within(receive, interval):
            return
    transport.close()
    await _wait_for_disconnect(receive)


async def _send_whole(send: Send, answer: Answer) -> None:
    await _send_head(send, answer, length=len(answer.body))
    await send({"type": "http.response.body", "body": answer.body})


async def _send_head(send: Send, answer: Answer, *, length: int | None) -> None:
    """Send status and headers; without ``length``, the body is chunked."""
    headers = dict(answer.headers)
    # 204 and 304 have neither a body nor a Content-Length.
    if length is not None and answer.status not in (204, 304):
        headers["content-length"] = str(length)
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})


async def _send_damaged(fault: Fault, answer: Answer, receive: Receive, send: Send) -> bool:
    """Send a response as the fault requires; return False if the connection must be closed afterwards."""
    sent = answer.body[: fault.cut]
    chunked = fault.endless or fault.framing == "chunked"
    announced = sent if fault.framing == "matching" else answer.body
    await _send_head(send, answer, length=None if chunked else len(announced))
    step = 1 if fault.interval else max(1, len(sent))
    for start in range(0, len(sent), step):
        await _send_part(send, sent[start : start + step])
        if fault.interval and await _disconnected_within(receive, fault.interval):
            return True
    if fault.endless:
        filler = b" " if fault.interval else b" " * _FLOOD_BYTES
        while not await _disconnected_within(receive, fault.interval):
            await _send_part(send, filler)
        return True
    if len(sent) < len(announced) or (chunked and fault.cut is not None):
        return False
    await send({"type": "http.response.body"})
    return True


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _disconnected_within(receive: Receive, seconds: float) -> bool:
    """Wait up to ``seconds``, and return whether the client disconnected."""
    try:
        async with asyncio.timeout(seconds):
            await _wait_for_disconnect(receive)
    except TimeoutError:
        return False
    return True


def _reset(transport: asyncio.Transport) -> None:
    # Without SO_LINGER, the client receives an ordinary close (FIN) instead of a reset (RST).
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
