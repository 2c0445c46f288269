# SPDX-License-Identifier: Apache-2.0
"""Probe: correct findings, at most 50 reads, and no values of the service in its output (``probe.py``)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_services import FakeService
from operations import update

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.commands import ExitStatus, main
from airflow_provider_analytics.commands.probe import as_answer, status
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.probe import CHECKS, MAX_REQUESTS, LimitedReader, Probe
from airflow_provider_analytics.sandbox.requests import RecordedRequest

Run = Callable[..., tuple[int, str, str]]


def probed(settings: Settings, seconds: float = 60) -> Probe:
    with LimitedReader(settings, seconds=seconds) as reader:
        probe = Probe(reader)
        probe.run()
    return probe


def marks(probe: Probe) -> dict[str, str]:
    """Return unexpected results: check to mark."""
    return {finding.name: finding.mark for finding in probe.findings if finding.mark not in ("ok", "?")}


def texts(probe: Probe) -> str:
    return "\n".join(map(as_answer, probe.findings))


def settings_of(sandbox: FakeService) -> Settings:
    return Settings(base_url=sandbox.url, api_key=sandbox.api_key)


P = {"page_parameter": "p"}
ONE_ZERO = {"boolean_format": "1/0"}
NO_PAGES = {"list": "FAILS"}
TWICE = {"total": "note"}
NO_SEARCH = {"search": "note"}
NO_FILTER = {"favorite": "note"}
OTHER_LISTS = {"entries": "FAILS"}
NOTHING_COMPLETE = {**NO_PAGES, **NO_SEARCH, **NO_FILTER}

#: Options of the fake services, the marks of unexpected results, and the extras to set; for 253 websites.
CASES: list[tuple[dict[str, Any], dict[str, str], dict[str, str]]] = [
    ({}, {}, {}),
    # Omitted empty fields
    ({"omits": "empty"}, {"fields": "note"}, {}),
    ({"omits": "null"}, {"fields": "note"}, {}),
    # Reading of the list
    ({"list_key": None}, TWICE, {}),
    ({"list_key": "data.websites", "lists_beside": "groups"}, {"list": "SET"}, {"list_key": "data.websites"}),
    (
        {"list_key": "rows", "lists_beside": "groups", **P, "links": "header"},
        {"list": "SET"},
        {"list_key": "rows"},
    ),
    ({"first_page": 0}, {}, {}),
    (P, {}, {}),
    ({**P, "links": "absent"}, {"list": "SET"}, P),
    ({**P, "links": "list"}, {"list": "SET"}, P),
    ({"page_parameter": "blatt", "links": "header"}, {}, {}),
    ({**P, "metadata": "none"}, {"list": "SET", **TWICE}, P),
    ({"paginator": "cursor"}, TWICE, {}),
    ({"paginator": "cursor", "links": "absent"}, {"list": "SET", **TWICE}, {"page_parameter": "page"}),
    ({"by_offset": True, "page_parameter": "offset"}, {}, {}),
    ({"ignored": ["page"]}, NO_PAGES, {}),
    ({"page_offset": 1}, NOTHING_COMPLETE, {}),
    ({"current_page": "wrong"}, {**NO_PAGES, **NO_FILTER}, {}),
    ({"page_size_limit": 25}, {"per_page": "note"}, {}),
    ({"total": "page"}, NO_PAGES, {}),
    ({"total_offset": 3}, NOTHING_COMPLETE, {}),
    ({"row_cap": 150}, NO_PAGES, {}),
    ({"ignored": ["sort"]}, {**NO_PAGES, **NO_FILTER}, {}),
    ({"order": "domain"}, TWICE, {}),
    ({"behind_last": "not found"}, {}, {}),
    ({"deletes": "mark"}, {}, {}),
    ({"nginx_limit": {"rate": 50, "burst": 0, "status": 429}}, {"limit": "note"}, {}),
    # Services that need more requests or fail partly
    ({"search_matches": "start"}, {}, {}),
    ({"search_matches": "case"}, NO_SEARCH, {}),
    ({"ignored": ["search"]}, NO_SEARCH, {}),
    ({"favorite_filter": "truth of text"}, {"favorite": "SET"}, ONE_ZERO),
    ({"boolean_rule": True}, {"favorite": "SET"}, ONE_ZERO),
    ({"boolean_rule": True, "list_hides": ["favorite"]}, {"favorite": "SET", "fields": "note"}, ONE_ZERO),
    ({"ignored": ["favorite"], "list_hides": ["favorite"]}, {**NO_FILTER, "fields": "note"}, {}),
    ({"list_hides": ["exclude_ips", "exclude_params"]}, {"fields": "note"}, {}),
    ({"list_hides": ["domain"]}, {"fields": "note"}, {}),
    ({"record_key": "data.website"}, {}, {}),
    ({"lists_as": "array"}, {}, {}),
    ({"lists_as": "commas"}, OTHER_LISTS, {}),
    ({"lists_as": "null"}, {}, {}),
    ({"numbers_as_text": True}, {}, {}),
    ({"domain_as": "with port"}, {"domains": "note"}, {}),
    ({"allow_duplicates": True}, {"domains": "note"}, {}),
    ({"anonymous_account": True}, {"account": "note"}, {}),
    ({"throttle": {"attempts": 600, "minutes": 1}}, {"limit": "note"}, {}),
    ({"extra_fields": {"api_token": "x"}}, {"secrets": "note"}, {}),
    ({"extra_fields": {"note": "made with {api_key}"}}, {"secrets": "note"}, {}),
]


@pytest.mark.parametrize(("options", "expected", "extras"), CASES, ids=[str(case[0]) for case in CASES])
@pytest.mark.chosen(31)
def test_probe_reports_the_actual_behavior_of_the_service(
    options: dict[str, Any], expected: dict[str, str], extras: Mapping[str, str], analytics_sandbox: FakeService
) -> None:
    populate(analytics_sandbox, 253, **options)
    probe = probed(settings_of(analytics_sandbox))
    assert (marks(probe), probe.extras) == (expected, extras)
    assert status(probe) == (2 if extras else 1 if "FAILS" in expected.values() else 0)
    assert {request.method for request in analytics_sandbox.requests} == {"GET"}
    assert len(analytics_sandbox.requests) == probe.reader.transport.stats.requests <= MAX_REQUESTS
    assert is_read(analytics_sandbox, probe) == (expected.get("list") != "FAILS")


def test_probe_names_the_fields_with_secrets(analytics_sandbox: FakeService) -> None:
    populate(analytics_sandbox, 5, extra_fields={"api_token": "x", "note": "made with {api_key}"})
    probe = probed(settings_of(analytics_sandbox))
    assert "results and snapshots omit secrets in api_token, note" in texts(probe)


def populate(sandbox: FakeService, count: int, **options: Any) -> None:
    """Add websites; the newest is a favorite with lists, whose domain is stored by the options."""
    sandbox.configure(**options)
    sandbox.seed(max(0, count - 2))
    domains = ["new.example", "other.example"] if not sandbox.options.allow_duplicates else ["new.example"] * 2
    with AnalyticsClient(settings_of(sandbox)) as client:
        for domain in domains[:count]:
            client.send_create(domain, {"exclude_ips": ("192.0.2.1", "198.51.100.7", "2001:db8::1")})
            update(client, sandbox.websites()[-1]["id"], favorite="1")
        if sandbox.options.deletes == "mark":
            client.send_delete(str(sandbox.websites()[0]["id"]), lambda record: None)
    sandbox.clear_requests()


def is_read(sandbox: FakeService, probe: Probe) -> bool:
    """Return whether a task reads the list with the suggested extras."""
    with AnalyticsClient(replace(settings_of(sandbox), **probe.extras)) as client:
        try:
            found = list(client.iter_websites())
        except AnalyticsError:
            return False
    assert len(found) == len(sandbox.websites())
    return True


@pytest.mark.parametrize("count", [0, 1, 10, 11, 100, 101])
@pytest.mark.parametrize(
    ("options", "fails_with_pages"),
    [({}, False), ({"ignored": ["page"]}, True), ({"paginator": "cursor"}, False), ({**P, "links": "list"}, False)],
    ids=str,
)
def test_probe_is_correct_for_any_number_of_websites(
    count: int, options: dict[str, Any], fails_with_pages: bool, analytics_sandbox: FakeService
) -> None:
    """A short list is read in small pages: it works tonight, but might fail with more than 100 websites."""
    populate(analytics_sandbox, count, **options)
    probe = probed(settings_of(analytics_sandbox))
    found = marks(probe)
    assert ("FAILS" in found.values()) == (fails_with_pages and count > 10)
    assert probe.extras == (P if "links" in options and count > 10 else {})
    assert is_read(analytics_sandbox, probe) == (found.get("list") != "FAILS")


def test_long_list_is_read_up_to_the_request_limit(analytics_sandbox: FakeService) -> None:
    populate(analytics_sandbox, 300, page_size_limit=5)
    probe = probed(settings_of(analytics_sandbox))
    assert marks(probe) == {"list": "note", "per_page": "note"}
    assert " of 300, not read to its end" in texts(probe)
    assert len(analytics_sandbox.requests) <= MAX_REQUESTS
    # An extra without proof is not suggested.
    analytics_sandbox.configure(page_parameter="p", links="absent")
    probe = probed(settings_of(analytics_sandbox))
    assert (probe.extras, status(probe)) == ({}, ExitStatus.FAILED)
    assert '{"page_parameter": "p"}, not read to its end; set it, and run the probe again' in texts(probe)


def test_probe_corrects_wrong_extras(analytics_sandbox: FakeService) -> None:
    populate(analytics_sandbox, 150, links="absent")
    wrong: list[dict[str, Any]] = [{"page_parameter": "seite"}, {"boolean_format": "1/0", "list_key": "rows"}]
    for own in wrong:
        probe = probed(replace(settings_of(analytics_sandbox), **own))
        assert is_read(analytics_sandbox, probe)
        assert status(probe) == ExitStatus.CHANGES


@pytest.mark.parametrize("changes", [{3}, {3, 5}, {3, 9}], ids=str)
def test_changing_list_needs_no_extra(changes: set[int], analytics_sandbox: FakeService) -> None:
    """Numbers of list requests before which a website is deleted, so the list is never proven complete."""
    populate(analytics_sandbox, 150)
    asked = itertools.count(1)

    def delete_oldest(request: RecordedRequest) -> None:
        if request.operation == "list" and next(asked) in changes:
            analytics_sandbox.store.delete(analytics_sandbox.websites()[0]["id"])

    analytics_sandbox.meanwhile(delete_oldest)
    probe = probed(settings_of(analytics_sandbox))
    assert (marks(probe), probe.extras) == ({}, {})


def test_list_fails_if_its_pages_fail(analytics_sandbox: FakeService) -> None:
    populate(analytics_sandbox, 150)
    analytics_sandbox.fault("list", skip=2, status=500, times=None)
    probe = probed(replace(settings_of(analytics_sandbox), max_retries=0))
    assert marks(probe) == {"list": "FAILS", "search": "FAILS", "favorite": "FAILS"}
    assert status(probe) == ExitStatus.FAILED


def test_list_that_is_redirected_ends_the_probe(analytics_sandbox: FakeService) -> None:
    analytics_sandbox.fault("list", status=302, headers={"Location": "/login"})
    with pytest.raises(AnalyticsError, match="redirects to '/login'"):
        probed(settings_of(analytics_sandbox))


@pytest.mark.parametrize(("given", "limit", "expected"), [(600, 60, 10), (5, 60, 5), (600, 3, 3)])
def test_probe_waits_for_one_response_at_most_ten_seconds(given: float, limit: float, expected: float) -> None:
    settings = Settings(base_url="https://stats.example.com", api_key="k", timeout=given)
    assert LimitedReader(settings, seconds=limit).settings.timeout == expected


def test_hanging_service_is_abandoned_after_the_time_limit(analytics_sandbox: FakeService) -> None:
    """Only the time limit ends the request, because the service never responds."""
    populate(analytics_sandbox, 150, **P, links="absent")
    analytics_sandbox.fault("list", target="search=.", delay=600, times=None)
    marks = {finding.name: finding.mark for finding in probed(settings_of(analytics_sandbox), seconds=3).findings}
    assert (marks["list"], marks["favorite"]) == ("SET", "?")
    analytics_sandbox.fault("account", delay=600, times=None)
    with pytest.raises(AnalyticsError, match=r"was stopped|did not respond"):
        probed(settings_of(analytics_sandbox), seconds=0.3)


# The command


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], analytics_sandbox: FakeService) -> Run:
    """Run the command on a service: ``status, out, err = run("--json", url=..., key=...)``."""

    def probe(*arguments: str, url: str = "", key: str = "", **extra: Any) -> tuple[int, str, str]:
        host, password = url or analytics_sandbox.url, key or analytics_sandbox.api_key
        connection = {"conn_type": "analytics", "host": host, "password": password, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_PROBED", json.dumps(connection))
        return (main(["probe", "--conn-id", "probed", *arguments]), *capsys.readouterr())

    return probe


def test_extras_are_printed_ready_to_paste(analytics_sandbox: FakeService, run: Run) -> None:
    analytics_sandbox.seed(120)
    analytics_sandbox.configure(page_parameter="p", links="absent", boolean_rule=True)
    status, out, _ = run()
    extras = json.loads(out.splitlines()[-1])
    assert (status, extras) == (2, {"page_parameter": "p", "boolean_format": "1/0"})
    analytics_sandbox.clear_requests()
    status, out, _ = run(**extras)
    assert (status, out.splitlines()[-1].partition(". ")[2]) == (0, "No extras to set.")
    assert len(out.splitlines()) < 25, "a person reads it in half a minute"
    assert "The sample DAG try_your_service tests it on a new website." in out
    assert f"Sent {len(analytics_sandbox.requests)} requests." in out


def test_extras_to_set_come_before_a_list_that_cannot_be_read(analytics_sandbox: FakeService, run: Run) -> None:
    for number in range(120):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="192.0.2.1\n192.0.2.2")
    analytics_sandbox.configure(page_parameter="p", links="absent", lists_as="commas")
    status, out, _ = run()
    assert (status, json.loads(out.splitlines()[-1])) == (2, {"page_parameter": "p"})
    assert "FAILS entries" in out


def test_probe_gives_each_answer_as_soon_as_it_is_known(analytics_sandbox: FakeService) -> None:
    analytics_sandbox.seed(120)
    sent: list[int] = []
    with LimitedReader(settings_of(analytics_sandbox)) as reader:
        probe = Probe(reader)
        probe.run(lambda finding: sent.append(len(analytics_sandbox.requests)))
    assert len(sent) == len(probe.findings)
    assert sent[0] < sent[2] < sent[-1]


def test_json_report_prints_the_answers_to_standard_error(run: Run) -> None:
    _, out, err = run("--json")
    assert "ok    account   the key is accepted" in err
    assert json.loads(out)["status"] == 0


@pytest.mark.repository
def test_documented_report_is_real(analytics_sandbox: FakeService, run: Run) -> None:
    analytics_sandbox.seed(253)
    analytics_sandbox.configure(boolean_rule=True)
    document = Path(__file__).parents[3] / "docs" / "reference" / "command_line.md"
    assert run()[1].partition(analytics_sandbox.url)[2].strip() in document.read_text(encoding="utf-8")


def test_json_report_has_every_check_and_no_host(analytics_sandbox: FakeService, run: Run) -> None:
    analytics_sandbox.seed(12)
    status, out, _ = run("--json")
    found = json.loads(out)
    assert found["status"] == status == 0
    assert found["findings"].keys() == CHECKS.keys() - {"total", "per_page"}
    assert analytics_sandbox.url not in out
    assert found["requests"] == len(analytics_sandbox.requests)


@pytest.mark.parametrize(
    ("wrong_key", "message"),
    [("401", "API key rejected"), ("403", "403"), ("redirect", "/login"), ("page", "or a wrong Base URL")],
)
def test_wrong_key_fails_and_is_not_printed(
    wrong_key: str, message: str, analytics_sandbox: FakeService, run: Run
) -> None:
    analytics_sandbox.configure(wrong_key=wrong_key)
    status, out, err = run(key="wr0ng-key-of-some-length")
    assert (status, out) == (1, "")
    assert message in err
    assert "wr0ng-key-of-some-length" not in err
    assert len(analytics_sandbox.requests) == (2 if wrong_key == "page" else 1)
    status, _, err = run(url=f"{analytics_sandbox.url}/app")
    assert (status, "Check the Base URL." in err) == (1, True)


@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=str)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 0),
        ({"page_offset": 1}, 1),
        ({**P, "links": "absent", "list_key": None}, 2),
        ({"record_key": "data.website", "ignored": ["search", "favorite"]}, 0),
        ({"domain_as": "with port", "lists_as": "br", "list_hides": ["exclude_ips"]}, 1),
    ],
)
def test_values_of_the_service_are_neither_printed_nor_logged(
    options: dict[str, Any],
    expected: int,
    arguments: tuple[str, ...],
    analytics_sandbox: FakeService,
    run: Run,
    caplog: pytest.LogCaptureFixture,
) -> None:
    marker = "mrk7f3"
    populate(analytics_sandbox, 2, extra_fields={"note": f"a note {marker}", marker: marker}, **options)
    for number in range(150):
        lists = {"exclude_params": f"{marker}\n{marker}-{number}", "exclude_ips": "192.0.2.77"}
        analytics_sandbox.add_website(f"{marker}-{number}.example", **lists)
    status, *printed = run(*arguments)
    assert status == expected
    # A page without a list fails, and the message names the extra.
    analytics_sandbox.fault("list", body={"things": [{"name": marker}], "others": []}, times=None)
    status, out, err = run(*arguments)
    assert (status, "list_key" in err) == (1, True)
    text = "".join([*printed, out, err, caplog.text])
    assert marker not in text
    assert "192.0.2.77" not in text
