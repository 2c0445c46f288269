"""The tests' own tools: a guard that does not guard, or a DAG that no test runs, would go unnoticed."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_far_hosts_are_out_of_reach_and_loopback_is_not(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(pytest.fail.Exception, match="only this machine"):
        client.connect((host, 80))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


def test_every_sample_dag_is_run() -> None:
    tests = Path(__file__).parents[1]
    texts = [path.read_text() for path in (tests / "integration").rglob("test_*.py")]
    marked = {name for text in texts for name in re.findall(r'^@pytest\.mark\.sample\("(\w+)"\)', text, re.MULTILINE)}
    assert marked == {path.stem for path in (tests.parent / "dags").glob("*.py")}
