"""The probe over real sockets: right or "cannot tell", at most 15 reads, and no value of the service in a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import look_alikes
import probe_matrix
import pytest
from look_alikes import KEY, LOOK_ALIKES, MARKER, LookAlike
from raw_server import RawServer, Reply, Request

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.commands import main
from airflow_provider_analytics.exceptions import AuthenticationError, IncompleteListError
from airflow_provider_analytics.probe import report
from airflow_provider_analytics.probe.findings import ASKED, Finding, findings
from airflow_provider_analytics.probe.seen import MAX_REQUESTS, Probe
from airflow_provider_analytics.probe.unknowns import BY_NAME, UNKNOWNS
from airflow_provider_analytics.sandbox.server import SandboxServer

CASES = list(probe_matrix.cases())
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on a service: ``status, out, err = run(url, key, "--json")``."""

    def probe(url: str, key: str, *arguments: str, **extra: Any) -> tuple[int, str, str]:
        connection = {"conn_type": "analytics", "host": url, "password": key, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_PROBED", json.dumps(connection))
        return (main(["probe", "--conn-id", "probed", *arguments]), *capsys.readouterr())

    return probe


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_answer_is_right_or_none_and_each_promise_is_kept(
    case: probe_matrix.Case, analytics_sandbox: SandboxServer
) -> None:
    tried = probe_matrix.try_case(analytics_sandbox, case)
    assert tried.wrong == []
    assert tried.requests <= MAX_REQUESTS


#: What only a server with more than one page, of more than one kind, can show; and what reads cannot tell.
NEVER_TOLD = {
    ("deleted_rows", "no"), ("duplicates", "no"), ("secrets", "no"), ("rate_limit", "no"), ("freshness", "at once"),
    ("freshness", "late after a write"), ("freshness", "late in a search"),
    ("domains", "as sent"), ("domains", "as A-labels"),
    ("domains", "as U-labels"), ("domains", "in lower case"), ("domains", "by IDNA 2003"), ("domains", "without www"),
    ("domains", "with www"), ("lists", "cut"), ("lists", "null"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "value"),
    [(row, value) for row in UNKNOWNS if row.name in ASKED for value in row.values],
    ids=lambda one: one.name,
)
def test_each_value_is_recognized_unless_reads_cannot_tell(
    row: Any, value: Any, analytics_sandbox: SandboxServer
) -> None:
    tried = probe_matrix.try_case(
        analytics_sandbox, probe_matrix.Case("", dict(value.options)), wrong_key=row.name == "wrong_key"
    )
    [found] = [one for one in tried.found if one.unknown is row]
    assert found.value == (None if (row.name, value.name) in NEVER_TOLD else value.name)


@pytest.mark.parametrize("count", [0, 1, 2, 9, 10, 11, 99, 100, 101, 200, 201])
@pytest.mark.parametrize("options", [{}, {"ignored": {"page"}}, {"ignored": {"sort"}}, {"paging": "cursor"}])
def test_no_number_of_websites_leads_to_a_wrong_answer(
    count: int, options: dict[str, Any], analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.configure(**options)
    analytics_sandbox.seed(count)
    case = probe_matrix.Case("", options)
    for one in probed(analytics_sandbox.url, analytics_sandbox.api_key):
        assert one.value in case.right(one.unknown.name), one.unknown.name
    assert len(analytics_sandbox.requests) <= MAX_REQUESTS


def probed(url: str, key: str, **settings: Any) -> list[Finding]:
    with Probe(Settings(base_url=url, api_key=key, **settings)) as probe:
        return findings(probe.run())


LOOK_ALIKE = pytest.mark.parametrize("kind", LOOK_ALIKES, ids=lambda kind: kind.name)


#: What is not as assumed.
OTHERWISE: dict[str, dict[str, str]] = {
    "counted pages": {
        "links": "nowhere", "total": "no total", "page_number": "none", "order": "by something else",
        "record": "bare",
    },
    "cursor by id": {"order": "ignored", "search": "everything", "favorite_filter": "no filter", "record": "bare"},
    "link header": {
        "rows": "bare array", "pages": "another parameter, not linked by name", "links": "in the header Link",
        "page_number": "none", "total": "no total", "record": "bare", "errors": "problem details",
        "rate_limit": "in headers",
    },
}  # fmt: skip


class TestLookAlikes:
    @LOOK_ALIKE
    def test_what_is_otherwise_is_found(self, kind: type[LookAlike]) -> None:
        with look_alikes.serve(kind) as server:
            found = probed(server.url, KEY)
            assert len(server.requests) <= MAX_REQUESTS
            assert {request.method for request in server.requests} == {"GET"}
        otherwise = {one.unknown.name: one.value for one in found if one.effect not in (None, "assumed")}
        expected = OTHERWISE[kind.name]
        assert expected.items() <= otherwise.items()
        assert report.extras(found) == kind.extras
        assert not any("on one page" in one.seen for one in found)
        assert report.status(found) == kind.status

    @LOOK_ALIKE
    def test_the_list_is_read_or_refused_as_the_report_says(self, kind: type[LookAlike]) -> None:
        with look_alikes.serve(kind) as server:
            settings = Settings(base_url=server.url, api_key=KEY, max_retries=0, **kind.extras)
            with AnalyticsClient(settings) as client:
                if kind.status == report.FAILED:
                    with pytest.raises(IncompleteListError):
                        client.list_websites()
                else:
                    assert len(client.list_websites()) == look_alikes.COUNT

    @LOOK_ALIKE
    @pytest.mark.parametrize("arguments", [(), ("--json",), ("--json", "--wrong-key")])
    def test_no_value_of_the_service_is_in_what_is_printed(
        self, kind: type[LookAlike], arguments: tuple[str, ...], run: Run
    ) -> None:
        with look_alikes.serve(kind) as server:
            status, *printed = run(server.url, KEY, *arguments)
        assert status == kind.status
        assert MARKER not in "".join(printed).lower()
        assert not any(str(row["id"]) in "".join(printed) for row in server_rows(kind) if len(str(row["id"])) > 3)


def server_rows(kind: type[LookAlike]) -> list[dict[str, Any]]:
    return kind().websites


class TestTheCommand:
    def test_the_extras_are_printed_as_they_are_pasted(self, analytics_sandbox: SandboxServer, run: Run) -> None:
        analytics_sandbox.seed(120)
        analytics_sandbox.configure(page_parameter="p", links="absent", favorite_filter="1/0")
        status, out, _ = run(analytics_sandbox.url, analytics_sandbox.api_key)
        assert status == 2
        extras = json.loads(out.splitlines()[-1])
        assert extras == {"page_parameter": "p", "boolean_format": "1/0"}
        status, out, _ = run(analytics_sandbox.url, analytics_sandbox.api_key, **extras)
        assert status == 0
        assert out.endswith("No extras to set. The first website of a run shows how the service writes.\n")

    def test_a_well_behaved_server_needs_nothing(self, analytics_sandbox: SandboxServer, run: Run) -> None:
        analytics_sandbox.seed(120)
        status, out, err = run(analytics_sandbox.url, analytics_sandbox.api_key)
        assert status == 0
        assert len(out.splitlines()) < 45, "a person reads it in half a minute"
        told = [line for line in err.splitlines() if not line.startswith("[")]  # Airflow 2 logs there, too
        assert told[0] == " 1 of at most 15: the account"
        assert len(told) == len(analytics_sandbox.requests)

    def test_json_has_every_question(self, analytics_sandbox: SandboxServer, run: Run) -> None:
        analytics_sandbox.seed(12)
        status, out, _ = run(analytics_sandbox.url, analytics_sandbox.api_key, "--json", "--wrong-key")
        found = json.loads(out)
        assert found["status"] == status == 0
        assert list(found["answers"]) == list(BY_NAME)
        assert found["answers"]["wrong_key"]["value"] == "401"
        assert analytics_sandbox.url not in out
        assert found["requests"] == len(analytics_sandbox.requests) <= MAX_REQUESTS

    def test_without_the_flag_no_wrong_key_is_sent(self, analytics_sandbox: SandboxServer, run: Run) -> None:
        run(analytics_sandbox.url, analytics_sandbox.api_key)
        assert all(request.authorized for request in analytics_sandbox.requests)

    def test_a_wrong_key_fails_and_is_not_shown(self, analytics_sandbox: SandboxServer, run: Run) -> None:
        status, out, err = run(analytics_sandbox.url, "wr0ng-key-of-some-length")
        assert (status, out) == (1, "")
        assert "401" in err
        assert "wr0ng-key-of-some-length" not in err

    def test_a_page_that_is_no_list_fails_and_names_the_extra(self, analytics_sandbox: SandboxServer, run: Run) -> None:
        analytics_sandbox.fault("list", body={"things": 7}, times=None)
        status, _, err = run(analytics_sandbox.url, analytics_sandbox.api_key)
        assert status == 1
        assert "list_key" in err


class TestTime:
    def test_a_service_that_hangs_is_given_up_after_the_time_of_all_requests(self) -> None:
        served = look_alikes.LinkHeader()

        def respond(request: Request) -> bytes | Reply:
            return Reply(then="hang") if "sort=asc" in request.target else served(request)

        began = time.monotonic()
        with (
            RawServer(respond) as server,
            Probe(Settings(base_url=server.url, api_key=KEY), seconds=1) as probe,
        ):
            found = findings(probe.run())
        assert time.monotonic() - began < 5
        told = {one.unknown.name: one.value for one in found}
        assert (told["order"], told["missing"]) == (None, None)
        assert told["rows"] == "bare array"

    def test_a_service_that_hangs_at_once_fails(self) -> None:
        with (
            RawServer([Reply(then="hang")]) as server,
            Probe(Settings(base_url=server.url, api_key=KEY), seconds=0.3) as probe,
            pytest.raises(Exception, match=r"Stopped|did not respond"),
        ):
            probe.run()

    def test_a_key_that_is_refused_is_asked_once(self, analytics_sandbox: SandboxServer) -> None:
        with (
            Probe(Settings(base_url=analytics_sandbox.url, api_key="another-key")) as probe,
            pytest.raises(AuthenticationError),
        ):
            probe.run()
        assert len(analytics_sandbox.requests) == 1

    def test_a_list_that_changes_during_the_probe_is_not_judged(self, analytics_sandbox: SandboxServer) -> None:
        analytics_sandbox.seed(120)
        analytics_sandbox.fault("list", skip=3, drift={"create": 1})
        told = {one.unknown.name: one.value for one in probed(analytics_sandbox.url, analytics_sandbox.api_key)}
        assert {told[name] for name in ("pages", "total", "row_cap", "order", "favorite_filter")} == {None}
