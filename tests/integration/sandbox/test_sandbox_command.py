# SPDX-License-Identifier: Apache-2.0
"""The sandbox for users: command line, documented examples, and options (``sandbox/__main__.py``, docs/testing.md)."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from fake_services import FakeServiceOptions

from airflow_provider_analytics.sandbox.__main__ import main
from airflow_provider_analytics.sandbox.faults import Drift, Fault
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.sandbox.service import Options


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_prints_a_single_line_and_ends_at_a_signal(number: signal.Signals) -> None:
    command = [sys.executable, "-W", "error", "-m", "airflow_provider_analytics.sandbox", "--port", "0"]
    command += ["--websites", "250", "--seed", "7", "--api-key", "it's $HOME"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        script = f'export {process.stdout.readline()}printf %s "$AIRFLOW_CONN_ANALYTICS_DEFAULT"'
        connection = json.loads(subprocess.check_output(["/bin/sh", "-ec", script]))
        host, key = connection["host"], connection["password"]
        assert (connection["conn_type"], key) == ("analytics", "it's $HOME")
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", host)
        headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        assert requests.get(f"{host}/api/v1/websites", headers=headers, timeout=10).json()["meta"]["total"] == 250
        requests.get(f"{host}/nothing", timeout=10)
        url = urlsplit(host)
        with socket.create_connection((str(url.hostname), url.port or 0)) as unfinished:
            unfinished.sendall(b"GET /api/v1/account HTTP/1.1\r\n")
            process.send_signal(number)
            assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_failure_of_the_command_is_a_single_line(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--host", "192.0.2.1"])
    printed = capsys.readouterr()
    assert (status, printed.out, len(printed.err.splitlines())) == (1, "", 1)


@pytest.mark.parametrize(
    "arguments", [["--port", "65536"], ["--websites", "-1"], ["--websites", "100001"], ["--seed", "x"]]
)
def test_sandbox_command_names_an_invalid_argument(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert f"error: argument {arguments[0]}:" in capsys.readouterr().err


def test_plugin_imports_few_modules_and_names_a_missing_extra() -> None:
    program = (
        "import sys, airflow_provider_analytics.sandbox.pytest_plugin\n"
        "print({'pydantic', 'starlette', 'uvicorn', 'airflow'} & sys.modules.keys())\n"
        "sys.modules['starlette'] = None\n"
        "from airflow_provider_analytics.sandbox.__main__ import main\n"
        "print(main([]))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    needed = "The sandbox needs starlette. Run: pip install starlette uvicorn\n"
    assert (ended.stdout, ended.stderr) == ("set()\n1\n", needed)


# docs/testing.md and docs/reference/sandbox.md: the examples run, and the tables name every field


DOCS = Path(__file__).parents[3] / "docs"
GUIDE, DOCUMENT = ((DOCS / name).read_text(encoding="utf-8") for name in ("testing.md", "reference/sandbox.md"))
#: The tests of both pages, except for tests with DAG files, which tests/system/test_quickstart.py runs.
PYTHON = [
    code
    for code in re.findall(r"```python\n(.*?)```", GUIDE + DOCUMENT, re.DOTALL)
    if "def test_" in code and "dags" not in code
]


def section(title: str) -> str:
    return DOCUMENT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(title: str) -> set[str]:
    """Return the names in the first column of a section's table."""
    cells = re.findall(r"^\| (`[^|]*`) \|", section(title), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`(]*)[^`]*`", cell)}


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_documented_examples_run(analytics_sandbox: SandboxServer, number: int) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(PYTHON[number], f"example {number}", "exec"), namespace)
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test(*[analytics_sandbox for _ in inspect.signature(test).parameters])


def test_command_prints_the_documented_output() -> None:
    install, command = re.findall(r"```sh\n(.*?)\n```", GUIDE, re.DOTALL)
    assert "[sandbox]" in install
    assert command.startswith("python -m airflow_provider_analytics.sandbox ")
    [printed] = re.findall(r"```output\n(.*?)\n```", GUIDE, re.DOTALL)
    name, _, value = shlex.split(printed)[0].partition("=")
    with SandboxServer() as server:
        assert name in server.connection_env
        assert json.loads(value).keys() == json.loads(server.connection_json()).keys()


PUBLIC = {name for name in vars(SandboxServer) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Options", set(Options.model_fields)),
        ("Faults", set(Fault.model_fields)),
        ("Fixture", PUBLIC - {"start", "stop"} | {"api_key"}),
    ],
)
def test_sandbox_page_names_every_option(title: str, names: set[str]) -> None:
    assert first_cells(title) == names


def test_sandbox_page_names_every_kind_of_drift() -> None:
    assert all(f"`{name}`" in section("Faults") for name in Drift.model_fields)


# Fake services of the tests


@pytest.mark.repository
@pytest.mark.parametrize("option", sorted(FakeServiceOptions.model_fields.keys() - Options.model_fields.keys()))
def test_fake_service_option_is_used_by_a_test(option: str) -> None:
    used = re.compile(rf'\b{option}("\]?: |=|", )')
    paths = (path for path in Path(__file__).parents[2].rglob("*.py") if path.name != "fake_services.py")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in paths)
