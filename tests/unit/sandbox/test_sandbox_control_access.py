from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from airflow_provider_analytics.sandbox.app import App
from airflow_provider_analytics.sandbox.options import Options


@pytest.mark.parametrize(
    ("client", "status"),
    [("127.0.0.1", 200), ("127.9.9.9", 200), ("::1", 200), ("192.0.2.1", 403), ("2001:db8::1", 403)],
)
def test_the_control_endpoints_answer_this_machine_only(client: str, status: int) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/_sandbox/websites",
        "raw_path": b"/_sandbox/websites",
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "client": (client, 50000),
    }
    asyncio.run(App("key", Options(), "")(scope, receive, send))

    assert sent[0]["status"] == status
