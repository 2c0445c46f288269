# SPDX-License-Identifier: Apache-2.0
"""Command line of the sandbox, as a separate process (``sandbox/__main__.py``)."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
import requests

from airflow_provider_analytics.sandbox.__main__ import main


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
