# SPDX-License-Identifier: Apache-2.0
"""Acceptance run: findings, request limits, and removal of its websites, over real sockets (``acceptance``)."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_services import FakeService
from framework_servers import FRAMEWORKS, KEY, FrameworkServer
from raw_server import RawServer, Request, answer_read, http, rows

from airflow_provider_analytics.acceptance import acceptance_report
from airflow_provider_analytics.acceptance.disposable import CreatedWebsite, CreatedWebsites, is_disposable, new_domain
from airflow_provider_analytics.acceptance.run import AcceptanceRun
from airflow_provider_analytics.acceptance.state import LeftoverError
from airflow_provider_analytics.acceptance.statements import STATEMENTS
from airflow_provider_analytics.acceptance.transport import MAX_REQUESTS, GuardedTransport, RequestLimitError
from airflow_provider_analytics.api.fields import UPDATE_FIELDS
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.commands import main
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.sandbox.options import PRESETS
from airflow_provider_analytics.sandbox.requests import Operation, RecordedRequest

Run = Callable[..., tuple[int, str, str]]

#: The options of the presets, but with shorter times.
QUICK_PRESETS: dict[str, dict[str, Any]] = {
    **{name: {"preset": name} for name in PRESETS},
    "throttle": {"throttle": {"attempts": 60, "minutes": 0.02}},
    "replica": {"seconds_behind": 0.03},
    "nginx-limit": {"nginx_limit": {"rate": 100, "burst": 5, "status": 503}},
    "nginx-limit-429": {"nginx_limit": {"rate": 100, "burst": 0, "status": 429}},
}
BOOLEANS = ("email-values", "exclude_bots-values", "favorite-values")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read late writes again, without real pauses."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0, 0.05, 0))


def settings_of(server: FakeService | FrameworkServer, **extras: Any) -> Settings:
    key = server.api_key if isinstance(server, FakeService) else KEY
    return Settings(base_url=server.url, api_key=key, **extras)


def verified(settings: Settings, **arguments: Any) -> AcceptanceRun:
    run = AcceptanceRun(settings, **arguments)
    run.run()
    return run


def marks(run: AcceptanceRun) -> dict[str, str]:
    """Return the statements without a documented mark."""
    return {finding.name: finding.mark for finding in run.findings.values() if finding.mark != "ok"}


# Findings


@pytest.mark.parametrize("preset", PRESETS)
def test_run_finds_the_interface_on_each_preset(preset: str, analytics_sandbox: FakeService) -> None:
    analytics_sandbox.configure(**QUICK_PRESETS[preset])
    analytics_sandbox.seed(30)
    before = analytics_sandbox.websites()
    run = verified(settings_of(analytics_sandbox))
    needs_extra = preset == "boolean-rule"
    assert marks(run) == ({"favorite-values": "SET"} if needs_extra else {})
    assert run.extras == ({"boolean_format": "1/0"} if needs_extra else {})
    assert acceptance_report.status(run) == (
        acceptance_report.FINDINGS if needs_extra else acceptance_report.AS_DOCUMENTED
    )
    assert run.findings.keys() == STATEMENTS.keys()
    assert analytics_sandbox.websites() == before
    assert run.transport.stats.requests <= MAX_REQUESTS


@pytest.mark.parametrize(
    ("framework", "options", "expected", "status"),
    [
        ("laravel", {}, {}, 0),
        ("django", {}, {"update-methods": "note"}, 2),
        ("rails", {}, {}, 0),
        ("go", {}, {"update-methods": "SET"}, 2),
        ("go", {"resets": True}, {"update-methods": "SET", "update-no-defaults": "FAILS"}, 2),
        ("laravel", {"inverts": True}, {**dict.fromkeys(BOOLEANS, "FAILS"), "favorite-filter": "?"}, 2),
        ("rails", {"deletes": False}, {"operation-delete": "FAILS"}, 1),
        ("django", {"inverts": True}, {**dict.fromkeys(BOOLEANS, "FAILS"), "favorite-filter": "?"}, 2),
    ],
)
def test_run_reports_the_differences_of_servers_written_from_scratch(
    framework: str, options: dict[str, Any], expected: dict[str, str], status: int
) -> None:
    with FRAMEWORKS[framework](**options) as server:
        for number in range(30):
            server.add(f"shop-{number}.example", email=True)
        others = dict(server.websites)
        run = verified(settings_of(server))
        found = marks(run)
        if options.get("inverts") and framework == "django":
            found.pop("update-methods")
        assert (found, acceptance_report.status(run)) == (expected, status)
        left = {key: website for key, website in server.websites.items() if key not in others}
        assert {key: website for key, website in server.websites.items() if key in others} == others
        assert len(left) == (not server.deletes)
        assert len(server.requests) == run.transport.stats.requests <= MAX_REQUESTS


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"updates": "absent is false"}, {"update-no-defaults": "FAILS"}),
        ({"updates": "reset others"}, {"update-no-defaults": "FAILS"}),
        ({"updates": "absent is zero", "omits": "empty"}, {"update-no-defaults": "FAILS"}),
        ({"omits": "empty"}, {}),
        ({"ignored_fields": ["email"]}, {"email-values": "FAILS"}),
        ({"lists_stored": "no networks"}, {"exclude_ips-values": "FAILS"}),
        (
            {"lists_as": "commas"},
            {"exclude_params-values": "FAILS", "exclude_ips-values": "FAILS", "rule-lines": "FAILS"},
        ),
        ({"ignored": ["search"]}, {"search": "note"}),
        ({"search_matches": "nothing"}, {"search": "note"}),
        ({"ignored": ["favorite"]}, {"favorite-filter": "note"}),
        ({"ignored": ["page"]}, {"per-page": "FAILS"}),
        ({"ignored": ["per_page"]}, {"per-page": "note"}),
        ({"favorite_stored": "truth of text", "favorite_filter": "truth of text"}, {"favorite-filter": "SET"}),
        ({"deletes": "mark"}, {}),
        ({"domain_as": "with scheme"}, {"operation-create": "FAILS", "search": "?"}),
        ({"lists_as": "CR LF"}, {}),
        ({"lists_as": "array", "numbers_as_text": True, "favorite_as": "text"}, {}),
        ({"empty_answers": ["create", "update", "delete"]}, {}),
        ({"empty_answers": ["create"], "anonymous_account": True}, {"operation-account": "note"}),
        ({"short_answers": ["create", "update"]}, {}),
        ({"message_answers": ["create"]}, {}),
        ({"ignored": ["sort"]}, dict.fromkeys(("operation-list", "sort", "sort-by"), "FAILS")),
        (
            {"echoes": ["create", "update"], "ignored_fields": ["email", "favorite"]},
            {"email-values": "FAILS", "favorite-values": "FAILS", "favorite-filter": "?"},
        ),
        (
            {"lists_stored": "last line"},
            dict.fromkeys(("exclude_params-values", "exclude_ips-values", "rule-lines"), "FAILS"),
        ),
        ({"favorite_as": "null"}, {}),
        ({"missing": "410", "delete_status": 202}, {}),
        ({"missing": "403"}, {"operation-delete": "FAILS"}),
    ],
    ids=str,
)
def test_run_reports_each_difference(
    options: dict[str, Any], expected: dict[str, str], analytics_sandbox: FakeService
) -> None:
    analytics_sandbox.configure(**options)
    for number in range(30):
        analytics_sandbox.add_website(f"shop-{number}.example")
    before = analytics_sandbox.websites()
    run = verified(settings_of(analytics_sandbox))
    assert marks(run) == expected
    assert analytics_sandbox.websites() == before


def test_run_suggests_the_update_method_that_keeps_unsent_fields(analytics_sandbox: FakeService) -> None:
    def reset_with_patch(request: RecordedRequest) -> None:
        analytics_sandbox.configure(updates="reset others" if request.method == "PATCH" else "keep others")

    analytics_sandbox.meanwhile(reset_with_patch)
    run = verified(settings_of(analytics_sandbox))
    assert run.extras == {"update_method": "PUT"}
    assert run.findings["update-no-defaults"].mark == "SET"
    run = verified(settings_of(analytics_sandbox, update_method="PUT"))
    assert run.extras == {}
    assert run.findings["update-methods"].seen.startswith("PATCH resets email")


def test_repeated_steps_send_writes_only_for_passwords(analytics_sandbox: FakeService) -> None:
    verified(settings_of(analytics_sandbox))
    writes = [(request.method, request.body) for request in analytics_sandbox.requests if request.method != "GET"]
    repeated = [body for (_, body), (_, following) in itertools.pairwise(writes) if body == following]
    assert len(repeated) == 2
    assert all(b"password=" in body for body in repeated)
    # Each field was sent alone, except for the password, which needs its privacy.
    forms = {re.sub(rb"=[^&]*", b"", body) for _, body in writes}
    fields = [name.encode() for name in UPDATE_FIELDS]
    assert forms == {b"domain", *fields, b"privacy&password", b""}
    assert {method for method, _ in writes} == {"POST", "PATCH", "PUT", "DELETE"}


# Services that are behind


@pytest.mark.slow
@pytest.mark.chosen(3)
@pytest.mark.parametrize("seed", range(10))
def test_run_has_no_findings_if_a_random_half_of_the_reads_is_behind(
    seed: int, analytics_sandbox: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0.02, 0.04))
    analytics_sandbox.configure(seconds_behind=0.05, balancer_seed=seed, allow_duplicates=seed % 2 == 0)
    analytics_sandbox.seed(30)
    before = analytics_sandbox.websites()
    analytics_sandbox.add_website(new_domain())
    run = verified(settings_of(analytics_sandbox))
    assert (marks(run), run.extras, run.leftovers) == ({}, {}, 1)
    assert run.not_removed is None
    assert analytics_sandbox.websites() == before


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ignored_fields": ["email"]}, {"email-values": "FAILS"}),
        ({"updates": "reset others"}, {"update-no-defaults": "FAILS"}),
        ({"search_matches": "nothing"}, {"search": "note"}),
    ],
    ids=str,
)
def test_run_reports_differences_if_a_random_half_of_the_reads_is_behind(
    options: dict[str, Any],
    expected: dict[str, str],
    analytics_sandbox: FakeService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0.02, 0.04))
    analytics_sandbox.configure(seconds_behind=0.05, balancer_seed=1, **options)
    run = verified(settings_of(analytics_sandbox))
    assert {name: mark for name, mark in marks(run).items() if mark != "?"} == expected
    assert analytics_sandbox.websites() == []


@pytest.mark.parametrize("seed", range(10))
def test_run_removes_the_website_after_an_error_if_a_random_half_of_the_reads_is_behind(
    seed: int, analytics_sandbox: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0.02, 0.04))
    analytics_sandbox.configure(seconds_behind=0.05, balancer_seed=seed)
    analytics_sandbox.fault("create", status=502, commit=True)
    with pytest.raises(AnalyticsError, match="may or may not"):
        verified(settings_of(analytics_sandbox))
    assert analytics_sandbox.websites() == []


def test_run_does_not_wait_if_no_read_is_behind(
    analytics_sandbox: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (60.0,))
    analytics_sandbox.seed(30)
    run = verified(settings_of(analytics_sandbox))
    assert marks(run) == {}
    assert run.transport.stats.waited < 1


# Limits


def test_run_never_writes_to_another_website(analytics_sandbox: FakeService) -> None:
    transport = GuardedTransport(settings_of(analytics_sandbox), "acceptance.example")
    website = analytics_sandbox.add_website("shop.example")
    form = {"domain": "other.example"}
    for method, path in (("DELETE", "/websites/1"), ("PATCH", "/websites/1"), ("POST", "/websites")):
        with pytest.raises(ValueError, match="is not about a website of this run"):
            transport.request(method, path, form=form)
    assert (analytics_sandbox.websites(), analytics_sandbox.requests) == ([website], [])


@pytest.mark.parametrize("is_readable", [True, False])
def test_run_stops_if_the_create_returns_the_id_of_another_website(is_readable: bool) -> None:
    records = rows(1, 2, email=1)

    def respond(request: Request) -> bytes:
        if request.method == "POST":
            return http(201, {"data": {"id": records[0]["id"]}})
        if "/websites/" in request.target and not is_readable:
            return http(404, {"message": "Not found."})
        return answer_read(request, records)

    with RawServer(respond) as server, pytest.raises(AnalyticsError):
        verified(Settings(base_url=server.url, api_key=KEY))
    assert {request.method for request in server.requests} == {"GET", "POST"}


def test_run_ends_after_the_maximum_number_of_requests_and_removes_the_website(analytics_sandbox: FakeService) -> None:
    """A service that returns each write only at the fourth read takes too many requests."""
    analytics_sandbox.configure(reads_behind=2)
    run = verified(settings_of(analytics_sandbox))
    assert run.transport.stats.requests <= MAX_REQUESTS
    assert run.findings["operation-delete"].mark == "ok"
    assert run.findings["update-no-defaults"].mark == "?"
    assert analytics_sandbox.websites() == []


@pytest.mark.parametrize("missing", range(1, 6))
def test_run_deletes_the_website_if_the_last_requests_of_the_delete_are_missing(
    missing: int, analytics_sandbox: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = verified(settings_of(analytics_sandbox)).transport.stats.requests
    kept = MAX_REQUESTS - needed + missing
    monkeypatch.setattr("airflow_provider_analytics.acceptance.transport.REMOVAL_REQUESTS", kept)
    run = verified(settings_of(analytics_sandbox))
    assert run.findings["operation-delete"].mark == "ok"
    assert run.not_removed is None
    assert analytics_sandbox.websites() == []


def test_run_fails_if_no_request_is_left_for_the_create(
    analytics_sandbox: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.acceptance.transport.REMOVAL_REQUESTS", MAX_REQUESTS - 2)
    with pytest.raises(RequestLimitError, match="Run the command again"):
        verified(settings_of(analytics_sandbox))
    assert len(analytics_sandbox.requests) == 2


def test_run_works_without_the_complete_list_of_a_large_account(analytics_sandbox: FakeService) -> None:
    analytics_sandbox.seed(3000)
    leftover = analytics_sandbox.add_website(new_domain())
    run = verified(settings_of(analytics_sandbox))
    assert marks(run) == {"operation-list": "?"}
    assert run.leftovers == 1
    assert leftover not in analytics_sandbox.websites()
    assert len(analytics_sandbox.websites()) == 3000


# Removal

#: Forks a process for each line of its input: the number of the request before which it kills itself.
_FORKING = """
import json, os, signal, sys
from pathlib import Path
from airflow_provider_analytics.acceptance.disposable import CreatedWebsites
from airflow_provider_analytics.acceptance.run import AcceptanceRun
from airflow_provider_analytics.api.settings import Settings

def verify(job):
    def kill(number, step):
        if number == job["kill_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
    created = CreatedWebsites(Path(job["record"]))
    settings = Settings(base_url=job["url"], api_key=job["key"])
    AcceptanceRun(settings, domain=job["domain"], created=created, progress=kill).run()

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            verify(json.loads(line))
        finally:
            os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def killed() -> Iterator[Callable[..., bool]]:
    """Start a run that is killed before a request; return whether it was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", _FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, text=True
    ) as process:

        def start(server: FakeService, kill_at: int, domain: str | None, record: Path) -> bool:
            assert process.stdin is not None
            assert process.stdout is not None
            job = {"url": server.url, "key": server.api_key, "kill_at": kill_at, "domain": domain}
            process.stdin.write(json.dumps({**job, "record": str(record)}) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline()) == -signal.SIGKILL

        yield start


@pytest.mark.kill
@pytest.mark.parametrize("domain", [None, "disposable.example"])
def test_next_run_removes_the_website_after_a_kill_before_each_request(
    domain: str | None, analytics_sandbox: FakeService, killed: Callable[..., bool], tmp_path: Path
) -> None:
    other = analytics_sandbox.add_website("shop.example", email=1)
    record = tmp_path / "created.json"
    left_behind = 0
    unknown = 0
    for kill_at in range(1, MAX_REQUESTS):
        if not killed(analytics_sandbox, kill_at, domain, record):
            break
        left_behind += len(analytics_sandbox.websites()) - 1
        try:
            run = verified(settings_of(analytics_sandbox), created=CreatedWebsites(record))
        except LeftoverError:
            # The run was killed between the create and its response: the website might belong to any user.
            unknown += 1
            record.unlink()
            analytics_sandbox.store.delete(analytics_sandbox.websites()[-1]["id"])
        else:
            assert run.not_removed is None
            assert CreatedWebsites(record).of(analytics_sandbox.url) == []
        assert analytics_sandbox.websites() == [other]
    assert left_behind > 60
    assert unknown == 0 if domain is None else unknown <= 5


def test_sweeper_removes_only_websites_with_the_exact_form(analytics_sandbox: FakeService) -> None:
    others = [
        analytics_sandbox.add_website(domain)
        for domain in (
            "acceptance-1.example.invalid",
            "acceptance-0123456789abcdef.example.com",
            "acceptance-0123456789abcdeg.example.invalid",
            "acceptance-0123456789abcdef0.example.invalid",
            "my-acceptance-0123456789abcdef.example.invalid",
            "acceptance-0123456789abcdef.example.invalid.shop.example",
        )
    ]
    analytics_sandbox.add_website("Acceptance-0123456789ABCDEF.example.invalid")
    analytics_sandbox.add_website(new_domain())
    run = verified(settings_of(analytics_sandbox))
    assert run.leftovers == 2
    assert analytics_sandbox.websites() == others
    assert is_disposable(new_domain())
    assert new_domain() != new_domain()


def test_sweeper_keeps_a_recorded_id_that_belongs_to_another_domain(
    analytics_sandbox: FakeService, tmp_path: Path
) -> None:
    website = analytics_sandbox.add_website("shop.example")
    created = CreatedWebsites(tmp_path / "created.json")
    created.add(CreatedWebsite(analytics_sandbox.url, "old.example", str(website["id"])))
    created.add(CreatedWebsite("https://other.example", "old.example", str(website["id"])))
    verified(settings_of(analytics_sandbox), created=created)
    assert analytics_sandbox.websites() == [website]
    assert created.of(analytics_sandbox.url) == []
    assert len(created.of("https://other.example")) == 1


def test_run_creates_nothing_while_a_leftover_cannot_be_removed() -> None:
    with FRAMEWORKS["rails"](deletes=False) as server:
        run = verified(settings_of(server))
        assert run.not_removed is not None
        assert "Delete it in the service." in run.not_removed.text
        with pytest.raises(LeftoverError, match="No website was created"):
            verified(settings_of(server))
        assert len(server.websites) == 1


def test_run_removes_the_website_if_the_response_to_the_create_is_lost(analytics_sandbox: FakeService) -> None:
    analytics_sandbox.fault("create", status=502, commit=True)
    with pytest.raises(AnalyticsError, match="may or may not"):
        verified(settings_of(analytics_sandbox))
    assert analytics_sandbox.websites() == []


@pytest.mark.parametrize("operation", ["update", "show", "list", "delete"])
def test_run_removes_the_website_after_an_error(operation: Operation, analytics_sandbox: FakeService) -> None:
    skipped = {"update": 3, "show": 5, "list": 8, "delete": 0}[operation]
    analytics_sandbox.fault(operation, skip=skipped, status=500, times=2)
    run = verified(settings_of(analytics_sandbox, max_retries=0))
    assert acceptance_report.status(run) == (1 if operation == "delete" else 2)
    if operation == "delete":
        verified(settings_of(analytics_sandbox))
    assert analytics_sandbox.websites() == []


# The command


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], analytics_sandbox: FakeService, tmp_path: Path
) -> Run:
    """Run the command: ``status, out, err = command("--yes", "--json")``."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))

    def run(*arguments: str, **extra: Any) -> tuple[int, str, str]:
        connection = {"conn_type": "analytics", "host": analytics_sandbox.url, "password": analytics_sandbox.api_key}
        monkeypatch.setenv("AIRFLOW_CONN_VERIFIED", json.dumps({**connection, "extra": extra}))
        return (main(["verify", "--conn-id", "verified", *arguments]), *capsys.readouterr())

    return run


def test_command_prints_the_table_and_the_extra_to_set(analytics_sandbox: FakeService, command: Run) -> None:
    analytics_sandbox.configure(preset="boolean-rule")
    status, out, err = command("--yes")
    assert (status, json.loads(out.splitlines()[-1])) == (2, {"boolean_format": "1/0"})
    assert re.search(r"^ +Statement of the interface +Seen +The tasks +Extra to set$", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 120
    assert f" 1 of at most {MAX_REQUESTS}: the account" in err
    status, out, _ = command("--yes", boolean_format="1/0")
    assert (status, out.count("FAILS")) == (0, 0)


@pytest.mark.repository
def test_documented_rows_are_in_the_report(analytics_sandbox: FakeService, command: Run) -> None:
    document = (Path(__file__).parents[3] / "docs" / "connection.md").read_text(encoding="utf-8")
    rows_of_document = document.partition("rows of the report")[2].partition("```text\n")[2].partition("```")[0]
    analytics_sandbox.configure(preset="boolean-rule")
    _, out, _ = command("--yes")
    lines = rows_of_document.splitlines()
    assert len(lines) == 10
    assert [line for line in lines if line not in out.splitlines()] == []


@pytest.mark.repository
def test_documented_maximum_number_of_requests_is_real() -> None:
    document = (Path(__file__).parents[3] / "docs" / "connection.md").read_text(encoding="utf-8")
    text = f"The command sends at most {MAX_REQUESTS} requests"
    assert text in document, f"docs/connection.md, Verify: write {text!r}"


@pytest.mark.repository
def test_documented_make_target_exists() -> None:
    root = Path(__file__).parents[3]
    document = (root / "docs" / "connection.md").read_text(encoding="utf-8")
    [target] = re.findall(r'^CONN="\$AIRFLOW_CONN_ANALYTICS_DEFAULT" make (\w+)$', document, re.MULTILINE)
    assert re.search(rf"^{target}:", (root / "Makefile").read_text(), re.MULTILINE)


def test_json_report_has_every_statement_and_neither_host_nor_domain(
    analytics_sandbox: FakeService, command: Run
) -> None:
    analytics_sandbox.add_website("secret-shop.example")
    status, out, _ = command("--yes", "--json")
    found = json.loads(out)
    assert (found["status"], found["is_removed"]) == (status, True)
    assert list(found["statements"]) == list(STATEMENTS)
    assert analytics_sandbox.url not in out
    assert "secret-shop" not in out
    assert "acceptance-page-password" not in out


@pytest.mark.parametrize(("answer", "status"), [("yes\n", 0), ("y\n", 1), ("\n", 1), ("", 1)])
def test_command_sends_nothing_without_a_confirmation(
    answer: str,
    status: int,
    analytics_sandbox: FakeService,
    command: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    answers = tmp_path / "answers"
    answers.write_text(answer)
    with answers.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        found, _, err = command()
    assert found == status
    assert "Enter yes to continue: " in err
    assert bool(analytics_sandbox.requests) == (status == 0)


def test_command_uses_a_given_domain_that_no_website_has(
    analytics_sandbox: FakeService, command: Run, tmp_path: Path
) -> None:
    status, _, _ = command("--yes", "--domain", "disposable.example")
    assert status == 0
    [create] = [request for request in analytics_sandbox.requests if request.method == "POST"]
    assert create.body == b"domain=disposable.example"
    assert json.loads((tmp_path / "analytics_acceptance.json").read_text()) == []
    website = analytics_sandbox.add_website("disposable.example")
    analytics_sandbox.clear_requests()
    status, out, err = command("--yes", "--domain", "disposable.example")
    assert (status, out) == (1, "")
    assert "has a website already" in err
    assert analytics_sandbox.websites() == [website]
    assert {request.method for request in analytics_sandbox.requests} == {"GET"}
    for bad in ("https://a.example", "a b", ""):
        assert command("--yes", "--domain", bad)[0] == 1


def test_command_names_the_option_if_the_service_rejects_the_domain(
    analytics_sandbox: FakeService, command: Run
) -> None:
    body = {"message": "The domain is invalid.", "errors": {"domain": ["The domain is invalid."]}}
    analytics_sandbox.fault("create", status=422, body=body)
    status, _, err = command("--yes")
    assert status == 1
    assert "status 422 about domain. Give another one with --domain." in err


def test_command_reports_a_website_that_it_cannot_remove(analytics_sandbox: FakeService, command: Run) -> None:
    analytics_sandbox.configure(deletes="keep")
    status, out, err = command("--yes")
    assert status == 1
    for text in (out, err):
        assert "may still exist, because it cannot be deleted" in text


def test_command_removes_the_website_after_a_termination_signal(analytics_sandbox: FakeService, command: Run) -> None:
    def terminate(request: RecordedRequest) -> None:
        if request.method == "PATCH":
            analytics_sandbox.meanwhile(lambda _: None)
            os.kill(os.getpid(), signal.SIGTERM)

    analytics_sandbox.meanwhile(terminate)
    status, _, err = command("--yes")
    assert (status, "The run was interrupted. It left no website behind." in err) == (1, True)
    assert analytics_sandbox.websites() == []


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": 1}'])
def test_command_rejects_a_damaged_record_of_created_websites(
    content: str, analytics_sandbox: FakeService, command: Run, tmp_path: Path
) -> None:
    path = tmp_path / "analytics_acceptance.json"
    path.write_text(content)
    status, _, err = command("--yes")
    assert (status, str(path) in err) == (1, True)
    assert analytics_sandbox.requests == []
