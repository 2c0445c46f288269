# SPDX-License-Identifier: Apache-2.0
"""Lines of exclusion lists: names, owners, dates, and unknown lines (``reconcile/desired/list_lines.py``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute
from reconciling import Night

from airflow_provider_analytics.commands import main
from airflow_provider_analytics.exceptions import AnalyticsError, BulkError
from airflow_provider_analytics.hooks import host_names
from airflow_provider_analytics.operators.exclusions import SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator
from airflow_provider_analytics.reconcile.desired import list_lines as maintained
from airflow_provider_analytics.reconcile.desired.list_lines import EntrySource
from airflow_provider_analytics.reconcile.state import read_tables
from airflow_provider_analytics.storage import StoragePath

TODAY = datetime(2026, 11, 23, 1, 30, tzinfo=UTC)
VPN = "vpn.example.com"


class Scenario:
    """The time, and the responses of the resolver."""

    def __init__(self) -> None:
        self.now = TODAY
        self.answers: dict[str, list[str] | OSError] = {}

    def look_up(self, name: str) -> list[str]:
        answer = self.answers.get(name, OSError(-2, "Name or service not known"))
        if isinstance(answer, OSError):
            raise answer
        return answer

    def pass_days(self, days: int = 1) -> None:
        self.now += timedelta(days=days)


@pytest.fixture
def scenario(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    found = Scenario()
    monkeypatch.setattr(maintained, "now", lambda: found.now)
    monkeypatch.setattr("airflow_provider_analytics.reconcile.state.now", lambda: found.now)
    monkeypatch.setattr(host_names, "look_up", found.look_up)
    return found


Sync = Callable[..., Any]


@pytest.fixture
def sync(scenario: Scenario, night: Night) -> Sync:
    def run(*lines: Any, **arguments: Any) -> Any:
        night.sandbox.clear_requests()
        given = {
            "exclude_ips": "\n".join(lines),
            "resolve_names": True,
            "run_id": scenario.now.isoformat(),
            **arguments,
        }
        return night.managed(**given)

    return run


def lists(night: Night) -> list[list[str]]:
    return [(item or "").splitlines() for item in night.lists()]


def test_changed_address_of_a_host_name_is_replaced_on_all_websites_in_the_same_run(
    night: Night, scenario: Scenario, sync: Sync
) -> None:
    night.add(12, exclude_ips="192.0.2.1 # Ann")
    text = f"8.8.8.8\n{VPN}  # Berlin, owner=it@example.com"
    scenario.answers[VPN] = ["1.1.1.1", "2606:4700:4700:0::1111"]
    sync(text)
    assert lists(night) == [["192.0.2.1 # Ann", "8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"]] * 12
    scenario.answers[VPN] = ["9.9.9.9", "1.1.1.1"]
    scenario.pass_days()
    result = sync(text)
    assert lists(night) == [["192.0.2.1 # Ann", "8.8.8.8", "1.1.1.1", "9.9.9.9"]] * 12
    assert (result["updates"], result["verified"], night.operations["update"]) == (12, True, 12)
    [table] = read_tables(StoragePath.of(next(night.folder.iterdir()).as_posix())).values()
    rows = table.rows["exclude_ips"]["*"]
    assert rows["9.9.9.9"] == EntrySource("it@example.com", None, "Berlin", (VPN,), "2026-11-24")
    assert rows["2606:4700:4700::1111"].removed_on == "2026-11-24"


def test_addresses_of_an_unresolvable_name_remain_for_a_week(
    night: Night, scenario: Scenario, sync: Sync, caplog: pytest.LogCaptureFixture
) -> None:
    night.add(1)
    scenario.answers[VPN] = ["1.1.1.1"]
    sync("8.8.8.8", VPN)
    scenario.answers.clear()
    scenario.pass_days(7)
    assert (sync("9.9.9.9", VPN)["updates"], lists(night)) == (1, [["1.1.1.1", "9.9.9.9"]])
    assert "Its last answer of 2026-11-23 is used until 2026-11-30: 1.1.1.1" in caplog.text
    scenario.pass_days()
    with pytest.raises(AnalyticsError, match="its last answer, of 2026-11-23, is older than 7 days"):
        sync("9.9.9.9", VPN)
    assert not night.updated
    # The new address also replaces the old address that a person typed in the meantime.
    night.sandbox.change_website(1, exclude_ips="1.1.1.1\n9.9.9.9\n192.0.2.7")
    scenario.answers[VPN] = ["1.1.1.2"]
    sync("9.9.9.9", VPN)
    assert lists(night) == [["9.9.9.9", "192.0.2.7", "1.1.1.2"]]


def test_guard_counts_a_host_name_and_not_its_addresses(night: Night, scenario: Scenario, sync: Sync) -> None:
    night.add(1)
    scenario.answers |= {VPN: [f"1.1.2.{number}" for number in range(20)], "new.example": ["1.1.1.5", "1.1.1.6"]}
    sync("1.1.1.1", VPN)
    scenario.answers[VPN] = ["1.1.1.1"]
    assert sync("1.1.1.1", VPN)["guard_message"] is sync("new.example")["guard_message"] is None
    assert lists(night) == [["1.1.1.5", "1.1.1.6"]]


def test_key_in_a_comment_is_absent_from_files_results_and_logs(
    night: Night, sync: Sync, caplog: pytest.LogCaptureFixture
) -> None:
    night.add(1)
    caplog.set_level("INFO")
    key = night.sandbox.api_key
    result = sync(f"1.1.1.1 # the key {key}, owner={key}, until=2026-11-30", list_name="x")
    files = "".join(file.read_text() for file in night.folder.rglob("*") if file.is_file())
    assert "1.1.1.1" in files
    for text in (files, json.dumps(result), caplog.text):
        assert key not in text


NO_ADDRESS = "is not an IP address"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        *((line, NO_ADDRESS) for line in ("*.example.com", "2130706433", "0x7f.1", "1.2.3", "vpn.example.com:443")),
        ("1.1.1.1 # until=2026-13-01", "has the expiration date '2026-13-01', which cannot be read. Allowed: until="),
        ("1.1.1.1 # until=20270131", "has the expiration date '20270131', which cannot be read"),
        ("1.1.1.1 # until=2027-01-31 office", "has the expiration date '2027-01-31 office', which cannot be read"),
        ("1.1.1.1 # until=", "has the expiration date '', which cannot be read"),
        ("1.1.1.1 # until=2027-01-31, until=2027-02-28", "has several expiration dates. Allowed: one until=YYYY-MM-DD"),
    ],
)
def test_unreadable_line_is_named(night: Night, sync: Sync, line: str, message: str) -> None:
    with pytest.raises((AirflowFailException, ValueError)) as raised:
        sync("8.8.8.8", line)
    assert f"exclude_ips has unusable entries (1):\nline 2: {line!r} {message}" in str(raised.value)
    assert not night.sandbox.requests


@pytest.mark.parametrize(
    "comment",
    [
        "valid 24/7", "until further notice", "until 31 January 2027", "see https://wiki.example/?until=2027-01-31",
        "owner=a, owner=b", "== since 2020 ==", "release 2026.1", "gateway 10.0.0.1",
    ],
)  # fmt: skip
def test_comment_without_an_expiration_date_is_only_a_reason(night: Night, sync: Sync, comment: str) -> None:
    night.add("a.example")
    result = sync("8.8.8.8", f"1.1.1.1 # {comment}")
    assert lists(night) == [["8.8.8.8", "1.1.1.1"]]
    assert (result["expired"], result["expiring"]) == ([], [])


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("util=2027-01-31", "has util= in its comment, which has no meaning. The closest is until="),
        ("expires=2027-01-31", "has expires= in its comment, which has no meaning. The closest is until="),
        ("valid_until = 2027-01-31", "has valid_until= in its comment, which has no meaning. The closest is until="),
        ("office ownr=ann", "has ownr= in its comment, which has no meaning. The closest is owner="),
        ("ticket=17, by Ann", "has ticket= in its comment, which has no meaning. Allowed: owner= and until="),
        ("until: 2026-11-01", "has the date 2026-11-01 in its comment. The closest is until="),
        ("office until 2027-01-31", "has the date 2027-01-31 in its comment. The closest is until="),
        ("bis 31.12.2026", "has the date 31.12.2026 in its comment. The closest is until="),
        ("until 2027-01-31T10:00", "has the date 2027-01-31 in its comment. The closest is until="),
    ],
)
@pytest.mark.parametrize("mode", ["managed", "merge"])
def test_misspelled_expiration_date_is_rejected_with_the_nearest_word(
    night: Night, mode: str, comment: str, problem: str
) -> None:
    state = night.state if mode == "managed" else {}
    with pytest.raises((AirflowFailException, ValueError)) as raised:
        night.sync("8.8.8.8", f"1.1.1.1 # {comment}", mode=mode, **state)
    assert problem in str(raised.value)
    assert not night.sandbox.requests


@pytest.mark.parametrize(
    ("lines", "arguments", "message"),
    [
        (
            VPN,
            {"resolve_names": False},
            "only SyncExcludedIpsOperator resolves host names",
        ),
        (VPN, {"mode": "merge"}, "resolve_names needs a managed list. Set state_path"),
        ("8.8.8.8 # until=2027-01-31", {"mode": "replace", "resolve_names": False}, "until needs the mode managed"),
        ("\n".join(f"h{n}.example" for n in range(101)), {}, "exclude_ips has 101 host names. Allowed: at most 100"),
        ("8.8.8.8 # until=2026-11-22", {}, "all its entries have expired: 8.8.8.8."),
    ],
)
def test_conflicting_arguments_are_rejected_before_any_request(
    night: Night, sync: Sync, lines: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((AirflowFailException, ValueError)) as raised:
        sync(lines, **arguments)
    assert message in str(raised.value)
    assert {request.operation for request in night.sandbox.requests} <= {"account"}


def test_entries_are_removed_everywhere_after_their_expiration_date_with_a_reason(
    night: Night, scenario: Scenario, sync: Sync, caplog: pytest.LogCaptureFixture
) -> None:
    night.add("a.example", exclude_ips="192.0.2.1")
    night.add("b.example")
    # A forgotten comma does not keep an entry forever.
    text = "8.8.8.8\n1.1.1.1  # Berlin, owner=it@example.com until=2026-11-24\n192.0.2.1 # UNTIL = 2026-11-24"
    assert sync(text)["expiring"] == [
        {"entry": "1.1.1.1", "until": "2026-11-24", "owner": "it@example.com", "reason": "Berlin"},
        {"entry": "192.0.2.1", "until": "2026-11-24"},
    ]
    scenario.pass_days()  # its expiration date
    assert sync(text)["updates"] == 0
    scenario.pass_days()
    caplog.set_level("INFO")
    result = sync(text)
    assert lists(night) == [["8.8.8.8"], ["8.8.8.8"]]
    assert ([item["entry"] for item in result["expired"]], result["expiring"]) == (["1.1.1.1", "192.0.2.1"], [])
    why = "until 2026-11-24, owner it@example.com, Berlin"
    assert f"Expired: 2 lines of the list.\n1.1.1.1: {why}" in caplog.text
    sources = {"1.1.1.1": f"expired, {why}", "192.0.2.1": "expired, until 2026-11-24"}
    last = {line["domain"]: line["sources"] for line in night.trail("*2026-11-25*")}
    assert last == {"a.example": sources, "b.example": sources}


def test_explain_shows_the_edited_date_of_an_expired_entry(
    night: Night, scenario: Scenario, sync: Sync, capsys: pytest.CaptureFixture[str]
) -> None:
    night.add(1)
    sync("8.8.8.8\n1.1.1.1 # Berlin, until=2027-01-31")
    scenario.pass_days()
    sync("8.8.8.8\n1.1.1.1 # Berlin, until=2026-11-20")
    assert lists(night) == [["8.8.8.8"]]
    assert main(["explain", "1.1.1.1", "--state-path", str(night.folder)]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.split()[-3:] == ["2026-11-20", "expired,", "Berlin"]


def test_expired_entries_do_not_count_as_a_loss(night: Night, scenario: Scenario, sync: Sync) -> None:
    night.add(1)
    text = "\n".join(f"192.0.2.{number} # until=2026-11-2{5 if number < 8 else 9}" for number in range(1, 13))
    assert sync(text)["applied"] == 1
    scenario.pass_days(3)
    assert (sync(text)["entries_removed"], len(lists(night)[0])) == (7, 5)


def test_expired_address_remains_if_a_host_name_has_it(night: Night, scenario: Scenario, sync: Sync) -> None:
    night.add(1)
    scenario.answers[VPN] = ["1.1.1.1"]
    result = sync("1.1.1.1 # until=2026-11-01", VPN)
    assert (result["expired"], lists(night)) == ([], [["1.1.1.1"]])


def test_websites_file_has_owners_and_expiration_dates(night: Night, scenario: Scenario) -> None:
    night.add("a.example b.example")
    item = {"entry": "1.1.1.1", "owner": "it@example.com", "reason": "Berlin", "until": str(TODAY.date())}
    websites: dict[str, Any] = {"a.example": {}, "b.example": {"also_exclude_ips": ["1.1.1.1"]}}
    night.write({"defaults": {"exclude_ips": ["8.8.8.8", item]}, "websites": websites})
    night.apply(**night.state)
    scenario.pass_days()
    result = night.apply(**night.state, run_id="again")
    # It is also in the list of b.example, without an expiration date.
    assert lists(night) == [["8.8.8.8"], ["8.8.8.8", "1.1.1.1"]]
    assert [item["entry"] for item in result["expired"]] == ["1.1.1.1"]
    [line] = night.trail("*-again-*")
    assert line["sources"] == {"1.1.1.1": "expired, until 2026-11-23, owner it@example.com, Berlin"}


def test_names_are_looked_up_by_the_resolver_of_the_system(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """``localhost`` has the addresses of its own machine; both families are used."""
    night.add(1)
    night.managed("localhost", resolve_names=True)
    expected = sorted(host_names.look_up("localhost"))
    assert sorted(lists(night)[0]) == expected
    assert "127.0.0.1" in expected
    with pytest.raises(AnalyticsError, match=r"nowhere.invalid does not resolve"):
        night.managed("localhost", "nowhere.invalid", resolve_names=True)
    rows = [(0, 0, 0, "", ("192.0.2.1", 0)), (0, 0, 0, "", ("2001:db8::1", 0, 0, 0)), (0, 0, 0, "", ("192.0.2.1", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: rows)
    assert host_names.look_up("x.example") == ["192.0.2.1", "2001:db8::1"]


def test_explain_reports_the_reason_of_an_address(
    night: Night, scenario: Scenario, sync: Sync, capsys: pytest.CaptureFixture[str]
) -> None:
    night.add(3, exclude_ips="192.0.2.7")
    scenario.answers[VPN] = ["1.1.1.1"]
    sync("8.8.8.0/24", f"{VPN} # Berlin, owner=it@x, until=2027-01-31", networks="as_is", list_name="offices")

    def why(*arguments: str) -> list[list[str]]:
        """Return the cells of the table, preceded by the exit status."""
        capsys.readouterr()
        status = main(["explain", *arguments, "--state-path", str(night.folder)])
        lines = capsys.readouterr().out.splitlines()
        return [[str(status)], *([cell.strip() for cell in line.split("  ") if cell] for line in lines)]

    where = ["offices (exclude_ips)", "all websites"]
    address = ["1.1.1.1", *where, "it@x", "2026-11-23", "2027-01-31", VPN, "Berlin"]
    assert why("1.1.1.1")[2:] == why(VPN.upper())[2:] == [address]
    assert why("8.8.8.128/25")[2][:3] == ["8.8.8.0/24", *where]
    assert why("192.0.2.7") == [["2"], ["192.0.2.7: no list contains it"]]
    found = why("192.0.2.7", "--conn-id", "analytics_default")
    assert (found[0], found[2]) == (["0"], ["192.0.2.7", "no list (exclude_ips)", "3"])
    assert len(why()) == 4


#: Lines that mean several addresses: ``networks="as_is"`` sends them.
LINES = [
    "10/8",
    "192.0.2.10-20",
    "192.0.2.1 - 192.0.2.9",
    "192.168.*.*",
    r"^10\.[0-9]{1,3}\.",
    "[0-9a-f]+:.*",
    "10.",
    "192.0.2.0/255.255.255.0",
]
#: Lines of other people that are kept and never sent.
OTHER_LINES = ["a - b", "office", "192.0.2.1 Ann's laptop", "2001:db8::%eth0"]


@pytest.mark.parametrize("mode", ["merge", "managed"])
@pytest.mark.parametrize("line", [*LINES, *OTHER_LINES])
def test_sync_keeps_an_unknown_line(line: str, mode: str, night: Night) -> None:
    night.add(2, exclude_ips=line)
    night.add(1, exclude_ips=f"192.0.2.7\n{line} # Ann\n192.0.2.8")
    result = night.sync("203.0.113.7", mode=mode, **(night.state if mode == "managed" else {}))
    assert result["verified"] is True
    assert night.lists() == [f"{line}\n203.0.113.7"] * 2 + [f"192.0.2.7\n{line} # Ann\n192.0.2.8\n203.0.113.7"]
    assert night.sync("203.0.113.7", mode="merge")["updates"] == 0


@pytest.mark.parametrize("line", ["a - b", "utm_(source|medium)", "^fbclid$", 'say "x"', "a<b"])
def test_sync_keeps_an_unknown_parameter(line: str, night: Night, execute_task: Execute) -> None:
    night.add(2, exclude_params=f"{line}\ngclid")
    assert execute_task(SyncExcludedParamsOperator, exclude_params=["fbclid"])["verified"] is True
    assert night.lists("exclude_params") == [f"{line}\ngclid\nfbclid"] * 2


def test_replace_removes_an_unknown_line_and_the_guard_counts_it(night: Night) -> None:
    night.add(12, exclude_ips="192.168.*.*\n10/8")
    with pytest.raises(AirflowFailException, match="24"):
        night.sync("203.0.113.7", mode="replace")
    result = night.sync("203.0.113.7", mode="replace", override_guards=["entries_lost"])
    assert (result["entries_removed"], set(night.lists())) == (24, {"203.0.113.7"})


def test_sync_sends_networks_unchanged_and_removes_it_with_its_list_entry(night: Night) -> None:
    night.add(2, exclude_ips="192.168.*.*")
    for networks in ("reject", "expand"):
        with pytest.raises((AirflowFailException, ValueError), match="is not an IP address"):
            night.managed(*LINES, networks=networks)
    listed = {"networks": "as_is", "override_guards": ["entries_lost"]}
    assert night.managed(*LINES, "203.0.113.0/24", **listed)["verified"] is True
    assert [set(text.splitlines()) for text in night.lists()] == [{*LINES, "203.0.113.0/24"}] * 2
    assert night.managed("203.0.113.0/24", **listed)["entries_removed"] == 2 * len(LINES)
    assert night.lists() == ["203.0.113.0/24"] * 2


def test_export_keeps_networks_and_its_plan_is_empty(night: Night, execute_task: Execute, tmp_path: Path) -> None:
    night.add("a.example", exclude_ips="\n".join([*LINES, "192.0.2.7 # Ann", "# the end"]), exclude_params="a - b\nc,d")
    night.add("b.example", exclude_ips="192.0.2.7")
    file = str(tmp_path / "exported.yaml")
    assert execute_task(ExportWebsitesOperator, output_path=file)["omitted"] == 0
    exported = yaml.safe_load(Path(file).read_text())
    assert exported["networks"] == "as_is"
    assert len(exported["websites"]["a.example"]["exclude_ips"]) == len(LINES) + 2
    assert night.plan(config_path=file)["updates"] == 0


def test_restore_includes_networks(night: Night, execute_task: Execute, tmp_path: Path) -> None:
    before = "\n".join([*LINES, "192.0.2.7"])
    night.add("a.example", exclude_ips=before)
    base = str(tmp_path / "snapshots")
    snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path=base, partition_date=None).execute({})
    night.sandbox.change_website(1, exclude_ips="192.0.2.99")
    file = str(tmp_path / "restore.yaml")
    execute_task(ExportWebsitesOperator, output_path=file, base_path=base, snapshot_date=snapshot["snapshot_date"])
    night.apply(config_path=file, override_guards=["entries_lost"])
    assert night.lists() == [before]


@pytest.mark.parametrize("line", OTHER_LINES)
def test_export_leaves_out_a_list_with_a_line_that_is_never_sent(
    line: str, night: Night, execute_task: Execute, tmp_path: Path
) -> None:
    night.add("a.example", exclude_ips=f"192.0.2.7\n{line}")
    file = tmp_path / "exported.yaml"
    assert execute_task(ExportWebsitesOperator, output_path=str(file))["omitted"] == 1
    assert "# a.example: exclude_ips omitted" in file.read_text()
    assert night.plan(config_path=str(file))["updates"] == 0
    assert night.lists() == [f"192.0.2.7\n{line}"]


@pytest.mark.parametrize(
    "shown",
    [
        "192.0.2.1,192.0.2.2",
        "192.0.2.1 192.0.2.2",
        "192.0.2.1 # Ann, 192.0.2.2",
        '["192.0.2.1"]',
        '["192.0.2.1 # Ann", "192.0.2.2"]',
        "['192.0.2.1', '192.0.2.2 # Ann']",
        '{192.0.2.1,"192.0.2.2 # Ann"}',
        "192.0.2.1\n192...",
    ],
)
def test_sync_does_not_change_a_list_that_is_returned_in_another_form(shown: str, night: Night) -> None:
    night.add(2, exclude_ips=shown)
    with pytest.raises(BulkError, match="has several entries or is cut off"):
        night.sync("203.0.113.7")
    assert night.lists() == [shown] * 2
