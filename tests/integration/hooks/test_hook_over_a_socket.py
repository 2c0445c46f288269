"""The hook against a real server: the six operations, the Test button, and where a connection may come from."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowException
from dag_runs import RunDag

from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.exceptions import NotFoundError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def hook(analytics_sandbox: SandboxServer) -> Iterator[AnalyticsHook]:
    with AnalyticsHook() as hook:
        yield hook


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, analytics_sandbox: SandboxServer) -> Callable[..., AnalyticsHook]:
    """Give a hook whose connection differs from the sandbox's in the fields given."""

    def make(**changes: Any) -> AnalyticsHook:
        fields = json.loads(analytics_sandbox.connection_json())
        monkeypatch.setenv("AIRFLOW_CONN_CHANGED", json.dumps({**fields, **changes}))
        return AnalyticsHook("changed")

    return make


def test_six_operations(hook: AnalyticsHook, analytics_sandbox: SandboxServer) -> None:
    created = hook.create_website(
        "www.example.com",
        privacy="password",
        password="s3cret",
        email=True,
        exclude_bots=False,
        exclude_ips=["10.0.0.1"],
    )
    website_id = created["id"]
    assert analytics_sandbox.stored_password(website_id) == "s3cret"
    assert hook.update_website(website_id, privacy=Privacy.PRIVATE, exclude_ips=[], favorite=True)["favorite"] is True
    shown = hook.get_website(website_id)
    expected = {"privacy": 1, "email": 1, "exclude_bots": 0, "exclude_ips": None}
    assert {name: shown[name] for name in expected} == expected
    assert hook.list_websites(favorite=True) == list(hook.iter_websites(search="www")) == [shown]
    assert hook.find_website("WWW.example.com.") == shown
    assert hook.find_website("example.com") is None
    assert hook.get_account()["id"] == 1
    hook.delete_website(website_id)
    assert analytics_sandbox.websites() == []
    with pytest.raises(NotFoundError, match="404"):
        hook.delete_website(website_id)


def test_it_works_again_after_it_was_closed(hook: AnalyticsHook) -> None:
    hook.get_account()
    hook.close()
    assert hook.get_account()["id"] == 1


def test_a_good_connection_tests_well(hook: AnalyticsHook, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.seed(142)
    worked, message = hook.test_connection()
    assert worked
    assert message == (
        f"{analytics_sandbox.url} accepts the API key: 142 websites; pages by `page`; exclusion lists are shown."
    )
    assert [request.operation for request in analytics_sandbox.requests] == ["account", "list"]


FIRST_PAGES: dict[str, tuple[int, dict[str, Any], str]] = {
    "no websites": (0, {}, "0 websites; all on one page"),
    "one page": (42, {}, "42 websites; all on one page; exclusion lists are shown"),
    "one website": (1, {}, "1 website; all on one page; exclusion lists are shown"),
    "a header": (
        142,
        {"links": "header", "page_parameter": "p"},
        "142 websites; pages by `p`, which the extra page_parameter has to name; exclusion lists are shown",
    ),
    "nothing": (
        142,
        {"metadata": "none"},
        "100 websites on the first page, no total; pages by `page`, which is assumed; exclusion lists are shown",
    ),
    "fields": (
        42,
        {"list_hides": {"exclude_ips"}},
        "42 websites; all on one page; rows lack exclude_ips",
    ),
}


@pytest.mark.parametrize(("count", "options", "said"), FIRST_PAGES.values(), ids=FIRST_PAGES)
def test_a_test_tells_what_the_first_page_says(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer, count: int, options: dict[str, Any], said: str
) -> None:
    analytics_sandbox.seed(count)
    analytics_sandbox.configure(**options)
    assert hook.test_connection() == (True, f"{analytics_sandbox.url} accepts the API key: {said}.")


def test_a_list_that_cannot_be_read_without_an_extra_is_told(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.seed(3)
    analytics_sandbox.configure(list_key="websites", lists_beside="groups")
    worked, message = hook.test_connection()
    assert not worked
    assert "set the extra list_key to websites" in message


def test_a_test_of_a_slow_service_says_so(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.probe.reading.MAX_SECONDS_OF_A_TEST", 0.2)
    analytics_sandbox.fault("account", delay=30)
    assert hook.test_connection() == (False, f"The service did not respond within 0 s: {analytics_sandbox.url}")


def failed(hook: AnalyticsHook, sandbox: SandboxServer) -> str:
    """Press the Test button, and return the message of a failure; it never holds the key."""
    worked, message = hook.test_connection()
    assert not worked
    assert sandbox.api_key not in message
    assert len(sandbox.requests) <= 1, "a person waits for the answer: one attempt"
    return message


def test_a_wrong_key_is_told(connect: Callable[..., AnalyticsHook], analytics_sandbox: SandboxServer) -> None:
    message = failed(connect(password="wr0ng-key"), analytics_sandbox)
    for part in (analytics_sandbox.url.removeprefix("http://"), "401", "API key", "this connection"):
        assert part in message
    assert "wr0ng-key" not in message


def test_a_wrong_sub_path_is_told(connect: Callable[..., AnalyticsHook], analytics_sandbox: SandboxServer) -> None:
    message = failed(connect(host=f"{analytics_sandbox.url}/app"), analytics_sandbox)
    for part in (analytics_sandbox.url.removeprefix("http://"), "404", "Base URL"):
        assert part in message


def test_a_dead_port_is_told(connect: Callable[..., AnalyticsHook], analytics_sandbox: SandboxServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    message = failed(connect(host=f"http://127.0.0.1:{port}"), analytics_sandbox)
    for part in (f"127.0.0.1:{port}", "cannot be reached", "refused"):
        assert part in message


FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "page of a website": ({"body": "<html>Welcome</html>"}, ["200", "web page", "Welcome"]),
    "maintenance": ({"status": 503}, ["503", "Service Unavailable"]),
    "too many requests": ({"status": 429, "headers": {"Retry-After": "30"}}, ["429", "requests_per_minute"]),
    "redirect": ({"status": 302, "headers": {"Location": "https://elsewhere.example/"}}, ["302", "elsewhere.example"]),
    "no account": ({"body": {"error": "nothing here"}}, ["200", "nothing here"]),
    "dropped": ({"drop": True}, ["broke the connection off"]),
    "echo of the key": ({"status": 400, "echo": True}, ["400", "***"]),
}


@pytest.mark.parametrize(("fault", "expected"), FAULTS.values(), ids=FAULTS)
def test_what_goes_wrong_is_told(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer, fault: dict[str, Any], expected: list[str]
) -> None:
    analytics_sandbox.fault("account", times=None, **fault)
    message = failed(hook, analytics_sandbox)
    for part in (analytics_sandbox.url.removeprefix("http://"), *expected):
        assert part in message


def test_a_connection_that_is_not_there_is_airflows_own_error(analytics_sandbox: SandboxServer) -> None:
    with pytest.raises(AirflowException, match="nowhere"):
        AnalyticsHook("nowhere").get_account()


@pytest.mark.parametrize("extra", [None, '{"timeout": null, "verify": "", "max_retries": "0"}'])
def test_a_connection_in_the_metadata_database(
    analytics_sandbox: SandboxServer, run_dag: RunDag, extra: str | None
) -> None:
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    conn_id = f"in_database_{extra is None}"
    with create_session() as session:
        session.add(
            Connection(
                conn_id, "analytics", host=analytics_sandbox.url, password=analytics_sandbox.api_key, extra=extra
            )
        )
    with DAG(f"read_{conn_id}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        GetAccountOperator(task_id="account", analytics_conn_id=conn_id)
    assert run_dag(dag).tasks["account"].returned["id"] == 1


BACKEND = """
import json, os
from airflow.models.connection import Connection
from airflow.secrets import BaseSecretsBackend

class Vault(BaseSecretsBackend):
    def get_conn_value(self, conn_id, team_name=None):
        return {"vault_json": os.environ["A_JSON"], "vault_uri": os.environ["A_URI"]}.get(conn_id)
"""

COMMANDS = """
import contextlib, os, sys
from airflow.__main__ import main

def airflow(*arguments):
    sys.argv = ["airflow", *arguments]
    with contextlib.suppress(SystemExit):
        main()

host, key = os.environ["A_HOST"], os.environ["A_KEY"]
extra = '{"timeout": "7", "verify": null}'
airflow("db", "migrate")
airflow("connections", "add", "added_uri", "--conn-uri", os.environ["A_URI"])
airflow("connections", "add", "added_json", "--conn-json", os.environ["A_JSON"])
airflow("connections", "add", "added_fields", "--conn-type", "analytics", "--conn-host", host,
        "--conn-password", key, "--conn-extra", extra)
plain, _, port = host.rpartition(":")
port, _, path = port.partition("/")
airflow("connections", "add", "added_port", "--conn-type", "analytics", "--conn-host", f"{plain}/{path}",
        "--conn-port", port, "--conn-password", key, "--conn-extra", extra)
airflow("connections", "add", "wrong", "--conn-type", "analytics", "--conn-host", host, "--conn-password", "wr0ng-key")
for conn_id in ("added_port", "wrong"):
    airflow("connections", "test", conn_id)

# As the commands of Airflow 3 do: a plain process sees no connection of the database.
os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
for conn_id in ("added_uri", "added_json", "added_fields", "added_port", "vault_uri", "vault_json"):
    with AnalyticsHook(conn_id) as hook:
        settings = hook.client.settings
        hook.get_account()
        print("READ", conn_id, settings.base_url, settings.api_key == key, settings.timeout, settings.verify)
"""


@pytest.mark.slow
def test_command_line_and_secrets_backend_give_the_same_client(tmp_path: Path) -> None:
    (tmp_path / "vault.py").write_text(textwrap.dedent(BACKEND))
    with SandboxServer(api_key="k3y/With+Odd:@Signs%", root="/App") as sandbox:
        fields = json.loads(sandbox.connection_json())
        uri = f"analytics://:{quote(sandbox.api_key, safe='')}@{quote(sandbox.url, safe='')}?timeout=7"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")},
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
            "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
            "AIRFLOW__SECRETS__BACKEND": "vault.Vault",
            "PYTHONPATH": str(tmp_path),
            "A_HOST": sandbox.url,
            "A_KEY": sandbox.api_key,
            "A_URI": uri,
            "A_JSON": json.dumps({**fields, "extra": {"timeout": 7}}),
        }
        done = subprocess.run(
            [sys.executable, "-c", COMMANDS], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        read = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("READ")]
        names = ["added_uri", "added_json", "added_fields", "added_port", "vault_uri", "vault_json"]
        assert read == [[name, sandbox.url, "True", "7.0", "True"] for name in names]
        # Airflow 2 ends with status 0 either way.
        assert re.search(r"'added_port'\s+Testing\.\.\.\s+Connection success!", said)
        assert re.search(r"'wrong'\s+Testing\.\.\.\s+Connection failed!\s.*401 Unauthorized", said)
        assert sandbox.api_key not in said
        assert "wr0ng-key" not in said


def test_the_documented_example_runs(analytics_sandbox: SandboxServer) -> None:
    """The code of docs/reference/hook.md."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "hook.md").read_text(encoding="utf-8")
    analytics_sandbox.add_website("open.example", privacy=0)
    analytics_sandbox.add_website("closed.example", privacy=1)
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if ") -> " not in block:  # the signature of a method
            exec(block, found)
    assert found["private"] == ["closed.example"]
    named = set(re.findall(r"`(\w+)`", text.partition("```")[0])) - {"AnalyticsHook"}
    assert all(callable(getattr(AnalyticsHook, name)) for name in named)
