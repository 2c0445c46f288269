"""The command line, as a process of its own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from airflow_provider_analytics.sandbox.__main__ import main

Start = Callable[..., tuple["subprocess.Popen[str]", dict[str, str]]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command; returns the process and the connection that it printed, as a shell reads it."""
    processes = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
        command = [sys.executable, "-W", "error", "-m", "airflow_provider_analytics.sandbox", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        script = f'export {process.stdout.readline()}printf %s "$AIRFLOW_CONN_ANALYTICS_DEFAULT"'
        return process, json.loads(subprocess.check_output(["/bin/sh", "-ec", script]))

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def meta(connection: dict[str, str]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {connection['password']}", "Accept": "application/json"}
    found: dict[str, Any] = requests.get(f"{connection['host']}/api/v1/websites", headers=headers, timeout=10).json()
    return found["meta"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_line_then_quiet_until_a_signal_whatever_it_is_answering(start: Start, number: signal.Signals) -> None:
    process, connection = start("--port", "0", "--websites", "250", "--seed", "7", "--api-key", "it's $HOME")
    assert (connection["conn_type"], connection["password"]) == ("analytics", "it's $HOME")
    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", connection["host"])
    assert meta(connection)["total"] == 250
    requests.get(f"{connection['host']}/nothing", timeout=10)
    requests.post(f"{connection['host']}/_sandbox/faults", json={"delay": 600}, timeout=10)
    with pytest.raises(requests.Timeout):
        requests.get(f"{connection['host']}/api/v1/account", timeout=0.2)
    process.send_signal(number)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_a_preset(start: Start) -> None:
    assert "total" not in meta(start("--preset", "simple")[1])


def test_what_cannot_be_done_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--host", "192.0.2.1"])
    printed = capsys.readouterr()
    assert (status, printed.out, len(printed.err.splitlines())) == (1, "", 1)


@pytest.mark.parametrize(
    "arguments", [["--port", "65536"], ["--port", "-1"], ["--websites", "-1"], ["--seed", "x"], ["--preset", "x"]]
)
def test_a_wrong_argument_is_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert f"error: argument {arguments[0]}:" in capsys.readouterr().err


HEAVY = "{'pydantic', 'starlette', 'uvicorn', 'airflow'}"


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        *(
            (
                f"sys.modules['{missing}'] = None\n"
                "from airflow_provider_analytics.sandbox.__main__ import main\n"
                "print(main([]))",
                f"1\nThe sandbox needs {missing}: pip install 'airflow-provider-analytics[sandbox]'\n",
            )
            for missing in ("pydantic", "starlette", "uvicorn")
        ),
        (
            "import airflow_provider_analytics.sandbox.server\n"
            "print([name for name in sys.modules if name == 'airflow' or name.startswith('airflow.')\n"
            "       or name.startswith('airflow_provider_analytics.') and '.sandbox' not in name])",
            "[]\n",
        ),
        (f"import airflow_provider_analytics.sandbox.pytest_plugin\nprint({HEAVY} & sys.modules.keys())", "set()\n"),
    ],
    ids=["no pydantic", "no starlette", "no uvicorn", "neither Airflow nor the client", "the plugin"],
)
def test_what_is_imported(program: str, printed: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}"], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout + ended.stderr == printed
