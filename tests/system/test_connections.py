"""Every place where Airflow looks for a connection gives the same client, and Airflow's own test of it is green."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from certificates import Authority
from local_airflow import environment
from zoo import Zoo

from airflow_provider_analytics.api.settings import Settings

KEY = "k3y/With+Odd:@Signs%&=?#\"'$"

#: What a connection may have besides, but for the files and headers of the service.
EXTRA: dict[str, Any] = {
    "timeout": 7.5,
    "max_retries": 0,
    "requests_per_minute": 1000,
    "parallel_requests": 2,
    "page_parameter": "page",
    "boolean_format": "1/0",
    "update_method": "put",
    "allow_insecure_http": False,
}
#: Commands of Airflow, one after the other in one process, as importing it takes longer than they do; then the settings
#: of the hook of each connection. Reads and writes JSON.
COMMANDS = """
import contextlib, dataclasses, io, json, sys
from airflow.__main__ import main

def run(command):
    sys.argv = ["airflow", *command]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code
    return status, said.getvalue()

todo = json.load(sys.stdin)
said = [run(command) for command in todo["commands"]]
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
settings = {}
for conn_id in todo["connections"]:
    with AnalyticsHook(conn_id) as hook:
        settings[conn_id] = dataclasses.asdict(hook.client.settings)
with open(todo["answer"], "w") as file:
    json.dump({"said": said, "settings": settings}, file, default=dict)
"""


@dataclass(frozen=True)
class Service:
    """A server behind TLS and a proxy that wants a header, and how to reach it: nearly all that a connection holds."""

    host: str
    port: int
    root: str
    extra: Mapping[str, Any]

    @property
    def base_url(self) -> str:
        return f"{self.host}:{self.port}{self.root}"

    def fields(self, **changes: Any) -> dict[str, Any]:
        fields = {"conn_type": "analytics", "host": self.base_url, "password": KEY, "extra": self.extra, **changes}
        return {name: value for name, value in fields.items() if value is not None}

    def port_apart(self) -> dict[str, Any]:
        return self.fields(host=f"{self.host}{self.root}", port=self.port)

    def uri(self) -> str:
        return self._uri(quote(self.base_url, safe=""))

    def uri_port_apart(self) -> str:
        return self._uri(f"{quote(self.host + self.root, safe='')}:{self.port}")

    def _uri(self, host: str) -> str:
        query = "&".join(
            f"{name}={quote(value if isinstance(value, str) else json.dumps(value), safe='')}"
            for name, value in self.extra.items()
        )
        return f"analytics://:{quote(KEY, safe='')}@{host}?{query}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    certificate, key = authority.server_files("127.0.0.1")
    header = {"X-Door": "open, please"}
    options = {"required_headers": header}
    with Zoo(api_key=KEY, root="/App", ssl_certfile=certificate, ssl_keyfile=key, options=options) as sandbox:
        host, _, rest = sandbox.url.rpartition(":")
        extra = {**EXTRA, "verify": str(authority.path), "headers": header}
        yield Service(host, int(rest.partition("/")[0]), "/App", extra)


@pytest.fixture(scope="module")
def expected(service: Service) -> dict[str, Any]:
    extra = {name: value for name, value in service.extra.items() if name != "allow_insecure_http"}
    settings = Settings(base_url=service.base_url, api_key=KEY, **{**extra, "update_method": "PUT"})
    return without_source(dataclasses.asdict(settings))


def without_source(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "source"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("airflow")


def ask_airflow(
    home: Path, settings: Mapping[str, str], connections: Sequence[str], commands: Sequence[Sequence[str]] = ()
) -> dict[str, Any]:
    """Run commands in a new process of Airflow, test the connections, and return what the client of each was told.

    :raises AssertionError: if a command failed; with what it printed.
    """
    answer = home / "answer.json"
    tests = [["connections", "test", name] for name in connections]
    todo = {"commands": [*commands, *tests], "connections": connections, "answer": str(answer)}
    process = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps(todo),
        env=environment(home, {"AIRFLOW__CORE__TEST_CONNECTION": "Enabled", **settings}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    told = json.loads(answer.read_text())
    for command, (status, said) in zip(todo["commands"], told["said"], strict=True):
        assert status == 0, (command, said)
        assert KEY not in said
    for _, said in told["said"][len(commands) :]:
        assert "Connection success!" in said
    settings_of: dict[str, Any] = {name: without_source(found) for name, found in told["settings"].items()}
    return settings_of


def test_the_environment_and_the_database_give_the_same_client(
    service: Service, home: Path, expected: dict[str, Any]
) -> None:
    environment_variables = {
        "AIRFLOW_CONN_IN_JSON": json.dumps(service.fields()),
        "AIRFLOW_CONN_IN_JSON_PORT_APART": json.dumps(service.port_apart()),
        "AIRFLOW_CONN_AS_URI": service.uri(),
        "AIRFLOW_CONN_AS_URI_PORT_APART": service.uri_port_apart(),
    }
    flags = ("host", "port", "password")
    by_flags = [f"--conn-{name}={service.port_apart()[name]}" for name in flags]
    add = ["connections", "add"]
    commands = [
        ["db", "migrate"],
        [*add, "cli_json", "--conn-json", json.dumps(service.fields())],
        [*add, "cli_json_port_apart", "--conn-json", json.dumps(service.port_apart())],
        [*add, "cli_uri", "--conn-uri", service.uri()],
        [*add, "cli_uri_port_apart", "--conn-uri", service.uri_port_apart()],
        [*add, "cli_flags", "--conn-type=analytics", *by_flags, f"--conn-extra={json.dumps(service.extra)}"],
    ]
    names = ["in_json", "in_json_port_apart", "as_uri", "as_uri_port_apart", *(command[2] for command in commands[1:])]
    found = ask_airflow(home, environment_variables, names, commands)
    assert found == dict.fromkeys(names, expected)


def test_a_secrets_backend_gives_the_same_client(service: Service, home: Path, expected: dict[str, Any]) -> None:
    connections = {
        "object": service.fields(),
        "object_port_apart": service.port_apart(),
        "uri": service.uri(),
        "uri_port_apart": service.uri_port_apart(),
    }
    file = home / "connections.json"
    file.write_text(json.dumps(connections), "utf-8")
    settings = {
        "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(file)}),
    }
    assert ask_airflow(home, settings, list(connections)) == dict.fromkeys(connections, expected)
