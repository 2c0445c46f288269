"""The command line, as a process of its own."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import requests

from airflow_provider_analytics.sandbox.__main__ import main

Start = Callable[..., tuple["subprocess.Popen[str]", dict[str, str]]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command; returns the process and the connection that it printed."""
    processes = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "airflow_provider_analytics.sandbox", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        (assignment,) = shlex.split(process.stdout.readline())
        name, _, value = assignment.partition("=")
        assert name == "AIRFLOW_CONN_ANALYTICS_DEFAULT"
        return process, json.loads(value)

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def count(connection: dict[str, str]) -> int:
    headers = {"Authorization": f"Bearer {connection['password']}", "Accept": "application/json"}
    answer = requests.get(f"{connection['host']}/api/v1/websites", headers=headers, timeout=10)
    return int(answer.json()["meta"]["total"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_line_then_quiet_until_a_signal(start: Start, number: signal.Signals) -> None:
    process, connection = start("--port", "0", "--websites", "250", "--seed", "7")

    assert connection["conn_type"] == "analytics"
    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", connection["host"])
    assert count(connection) == 250
    requests.get(f"{connection['host']}/nothing", timeout=10)
    process.send_signal(number)

    assert process.communicate(timeout=10) == ("", "")
    assert process.returncode == 0


def test_a_signal_ends_it_whatever_it_is_answering(start: Start) -> None:
    process, connection = start()
    requests.post(f"{connection['host']}/_sandbox/faults", json={"delay": 60}, timeout=10)
    with pytest.raises(requests.Timeout):
        requests.get(f"{connection['host']}/api/v1/account", timeout=0.2)
    process.send_signal(signal.SIGTERM)

    assert process.communicate(timeout=10) == ("", "")
    assert process.returncode == 0


def test_the_line_can_be_evaluated_by_a_shell(start: Start) -> None:
    _, connection = start("--api-key", "it's $HOME")
    line = f"AIRFLOW_CONN_ANALYTICS_DEFAULT={shlex.quote(json.dumps(connection))}"

    shown = subprocess.run(
        ["/bin/sh", "-c", f'export {line}; printf %s "$AIRFLOW_CONN_ANALYTICS_DEFAULT"'],
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(shown.stdout)["password"] == "it's $HOME"


def test_what_cannot_be_done_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--host", "192.0.2.1"])

    printed = capsys.readouterr()
    assert (status, printed.out) == (1, "")
    assert len(printed.err.splitlines()) == 1


def test_a_preset(start: Start) -> None:
    _, connection = start("--preset", "simple")

    headers = {"Authorization": f"Bearer {connection['password']}", "Accept": "application/json"}
    listed = requests.get(f"{connection['host']}/api/v1/websites", headers=headers, timeout=10).json()

    assert "total" not in listed["meta"]


@pytest.mark.parametrize(
    "arguments", [["--port", "65536"], ["--port", "-1"], ["--websites", "-1"], ["--seed", "x"], ["--preset", "x"]]
)
def test_a_wrong_argument_is_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)

    assert f"error: argument {arguments[0]}:" in capsys.readouterr().err


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("missing", ["pydantic", "starlette", "uvicorn"])
def test_a_missing_extra_is_named_in_one_line(missing: str) -> None:
    program = (
        f"import sys; sys.modules['{missing}'] = None\n"
        "from airflow_provider_analytics.sandbox.__main__ import main\n"
        "sys.exit(main([]))"
    )

    ended = run("-c", program)

    assert ended.returncode == 1
    assert ended.stderr == f"The sandbox needs {missing}: pip install 'airflow-provider-analytics[sandbox]'\n"


def test_it_imports_neither_airflow_nor_the_client() -> None:
    program = (
        "import sys, airflow_provider_analytics.sandbox.server\n"
        "print([name for name in sys.modules if name == 'airflow' or name.startswith('airflow.')\n"
        "       or name.startswith('airflow_provider_analytics.') and '.sandbox' not in name])"
    )

    assert run("-c", program).stdout == "[]\n"


def test_loading_the_pytest_plugin_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import airflow_provider_analytics.sandbox.pytest_plugin\n"
        "heavy = {'pydantic', 'starlette', 'uvicorn', 'airflow'}\n"
        "print(sorted(heavy & sys.modules.keys() - before))"
    )

    assert run("-c", program).stdout == "[]\n"
