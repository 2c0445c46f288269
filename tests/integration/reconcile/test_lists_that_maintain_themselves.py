"""Host names, owners and last days in managed lists, through the operators, over a socket."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute

from airflow_provider_analytics.commands import main
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.hooks import host_names
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.state import read_tables
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.reconcile import maintained
from airflow_provider_analytics.reconcile.maintained import EntrySource, Resolved
from airflow_provider_analytics.sandbox.server import SandboxServer

TODAY = datetime(2026, 11, 23, 1, 30, tzinfo=UTC)
VPN = "vpn.example.com"


class World:
    """The time, and the answers of the resolver."""

    def __init__(self) -> None:
        self.now = TODAY
        self.answers: dict[str, list[str] | OSError] = {}

    def look_up(self, name: str) -> list[str]:
        answer = self.answers.get(name, OSError(-2, "Name or service not known"))
        if isinstance(answer, OSError):
            raise answer
        return answer


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()

    monkeypatch.setattr(maintained, "now", lambda: found.now)
    monkeypatch.setattr("airflow_provider_analytics.operators.state.now", lambda: found.now)
    monkeypatch.setattr(host_names, "look_up", found.look_up)
    return found


@pytest.fixture
def sync(world: World, execute: Execute, tmp_path: Path) -> Callable[..., Any]:
    def run(lines: Any, **arguments: Any) -> Any:
        given = {"state_path": str(tmp_path), "resolve_names": True, "run_id": world.now.isoformat(), **arguments}
        return execute(SyncExcludedIpsOperator, exclude_ips=lines, **given)

    return run


def lists(sandbox: SandboxServer) -> dict[str, list[str]]:
    return {website["domain"]: (website["exclude_ips"] or "").splitlines() for website in sandbox.websites()}


def sent(sandbox: SandboxServer) -> Counter[str | None]:
    found: Counter[str | None] = Counter(request.operation for request in sandbox.requests)
    sandbox.clear_requests()
    return found


def test_an_address_that_moved_is_replaced_on_all_websites_in_one_run(
    analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any], tmp_path: Path
) -> None:
    for number in range(12):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="192.0.2.1 # Ann")
    world.answers[VPN] = ["1.1.1.1", "2606:4700:4700:0::1111"]
    sync(f"8.8.8.8\n{VPN}  # Berlin, owner=it@example.com")
    assert set(map(tuple, lists(analytics_sandbox).values())) == {
        ("192.0.2.1 # Ann", "8.8.8.8", "1.1.1.1", "2606:4700:4700::1111")
    }
    sent(analytics_sandbox)
    world.answers[VPN] = ["9.9.9.9", "1.1.1.1"]
    world.now += timedelta(days=1)
    result = sync(f"8.8.8.8\n{VPN}  # Berlin, owner=it@example.com")
    assert set(map(tuple, lists(analytics_sandbox).values())) == {("192.0.2.1 # Ann", "8.8.8.8", "1.1.1.1", "9.9.9.9")}
    assert (result["updates"], result["applied"], result["verified"], result["unsafe"]) == (12, 12, True, None)
    assert sent(analytics_sandbox)["update"] == 12
    [table] = read_tables(next(tmp_path.iterdir()).as_posix()).values()
    rows = table.rows["exclude_ips"]["*"]
    assert rows["9.9.9.9"] == EntrySource("it@example.com", None, "Berlin", (VPN,), "2026-11-24")
    assert rows["2606:4700:4700::1111"].left == "2026-11-24"
    assert table.names[VPN] == Resolved(("1.1.1.1", "9.9.9.9"), datetime(2026, 11, 24, 1, 30, tzinfo=UTC))
    world.now += timedelta(days=1)
    again = sync(f"8.8.8.8\n{VPN}  # Berlin, owner=it@example.com")
    assert (again["updates"], sent(analytics_sandbox)["update"]) == (0, 0)


def test_a_list_may_move_to_host_names_and_a_name_may_be_replaced(
    analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any]
) -> None:
    """Moving is no loss: host names count, not their addresses."""
    for number in range(6):
        analytics_sandbox.add_website(f"{number}.example")
    world.answers[VPN] = [f"1.1.2.{number}" for number in range(20)]
    sync(["1.1.1.1", "1.1.1.2", VPN])
    world.answers[VPN] = ["1.1.1.1"]
    assert sync(["1.1.1.1", "1.1.1.2", VPN])["unsafe"] is None
    world.answers |= {"old.example": ["1.1.1.3", "1.1.1.4"], "new.example": ["1.1.1.5", "1.1.1.6"]}
    for name in ("old.example", "new.example"):
        assert sync([name])["applied"] == 6
    assert set(map(tuple, lists(analytics_sandbox).values())) == {("1.1.1.5", "1.1.1.6")}


def test_a_key_in_a_comment_is_in_no_file_result_or_log(
    analytics_sandbox: SandboxServer, sync: Callable[..., Any], tmp_path: Path, caplog: Any
) -> None:
    analytics_sandbox.add_website("a.example")
    caplog.set_level("INFO")
    key = analytics_sandbox.api_key
    result = sync(f"1.1.1.1 # the key {key}, owner={key}, until=2026-11-30", list_name="x")
    files = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "1.1.1.1" in files
    for text in (files, json.dumps(result), caplog.text):
        assert key not in text


def test_what_expires_is_no_loss(analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any]) -> None:
    for number in range(6):
        analytics_sandbox.add_website(f"{number}.example")
    text = "8.8.8.8\n1.1.1.1 # until=2026-11-23\n1.1.1.2 # until=2026-11-23"
    sync(text)
    world.now += timedelta(days=1)
    assert sync(text)["applied"] == 6
    assert set(map(tuple, lists(analytics_sandbox).values())) == {("8.8.8.8",)}


def test_a_last_day_of_some_websites_is_told_with_its_owner(
    analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any], tmp_path: Path
) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    given: dict[str, Any] = {"per_website": {"a.example": ["1.1.1.1 # owner=amy, until=2026-12-31"]}}
    text = "8.8.8.8\n1.1.1.1 # office, owner=it, until=2026-11-24"
    sync(text, **given)
    world.now += timedelta(days=2)
    result = sync(text, **given)
    assert lists(analytics_sandbox) == {"a.example": ["8.8.8.8", "1.1.1.1"], "b.example": ["8.8.8.8"]}
    assert result["expired"] == [{"entry": "1.1.1.1", "owner": "it", "until": "2026-11-24", "reason": "office"}]
    [line] = [
        json.loads(line) for file in tmp_path.rglob("*2026-11-25*.jsonl") for line in file.read_text().splitlines()
    ]
    assert (line["domain"], line["sources"]) == (
        "b.example",
        {"1.1.1.1": "expired, until 2026-11-24, owner it, office"},
    )


def test_a_name_without_an_answer_keeps_its_last_one_for_some_days(
    analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any]
) -> None:
    analytics_sandbox.add_website("a.example")
    with pytest.raises(AnalyticsError, match=r"^vpn.example.com does not resolve: Name or .* known; there is no"):
        sync([VPN])
    world.answers[VPN] = ["1.1.1.1"]
    sync([VPN])
    world.answers[VPN] = OSError(-3, "Temporary failure in name resolution")
    sent(analytics_sandbox)
    for _ in range(7):
        world.now += timedelta(days=1)
        assert sync([VPN])["updates"] == 0
    world.now += timedelta(days=1)
    sent(analytics_sandbox)
    with pytest.raises(AnalyticsError, match=r"its last answer, of 2026-11-23, is older than 7 days"):
        sync([VPN])
    assert sent(analytics_sandbox) == {"account": 1}
    assert lists(analytics_sandbox) == {"a.example": ["1.1.1.1"]}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("*.example.com", "is not an IP address"),
        ("2130706433", "is not an IP address"),
        ("0x7f.1", "is not an IP address"),
        ("1.2.3", "is not an IP address"),
        ("http://vpn.example.com", "is not an IP address"),
        ("vpn.example.com:443", "is not an IP address"),
        (
            "1.1.1.1 # until=2026-13-01",
            "has the last day '2026-13-01', which cannot be read; allowed: until=",
        ),
        ("1.1.1.1 # until=soon", "has the last day 'soon', which cannot be read"),
        ("1.1.1.1 # until=20270131", "has the last day '20270131', which cannot be read"),
        ("1.1.1.1 # office until 2027-01-31", "has a last day that cannot be read; allowed: until=YYYY-MM-DD"),
        ("1.1.1.1 # unitl=2027-01-31", "has a last day that cannot be read"),
        ("1.1.1.1 # owner=a, owner=b", "has owner= twice"),
        ("1.1.1.1 # valid_until=2027-01-31", "has a last day that cannot be read"),
        ("1.1.1.1 # expires=2027-01-31", "has a last day that cannot be read"),
        ("1.1.1.1 # expires 2027-01-31", "has a last day that cannot be read"),
        ("1.1.1.1 # (until=2027-01-31)", "has a last day that cannot be read"),
        ("1.1.1.1 # owner=until=2027-01-31", "has a last day that cannot be read"),
        ("1.1.1.1 # until\u200b=2027-01-31", "has a last day that cannot be read"),
        ("1.1.1.1 # until=2027-01-31 office", "has the last day '2027-01-31 office', which cannot be read"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(
    analytics_sandbox: SandboxServer, sync: Callable[..., Any], line: str, told: str
) -> None:
    with pytest.raises(AirflowFailException) as raised:
        sync(f"8.8.8.8\n{line}")
    assert f"exclude_ips has 1 unusable entries: line 2: {line!r} {told}" in str(raised.value)
    assert not analytics_sandbox.requests


@pytest.mark.parametrize(
    ("lines", "arguments", "told"),
    [
        (VPN, {"resolve_names": False}, "a host name needs resolve_names=True and mode='managed'"),
        (VPN, {"mode": "merge"}, "resolve_names is not allowed with mode='merge'; allowed: mode='managed'"),
        ("8.8.8.8 # until=2027-01-31", {"mode": "replace", "resolve_names": False}, "until needs mode='managed'"),
        ("\n".join(f"h{n}.example" for n in range(101)), {}, "exclude_ips has 101 host names; allowed: at most 100"),
        ("8.8.8.8 # until=2026-11-22", {}, "All of it has expired: 8.8.8.8."),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_sent(
    analytics_sandbox: SandboxServer, sync: Callable[..., Any], lines: str, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(AirflowFailException) as raised:
        sync(lines, **arguments)
    assert told in str(raised.value)
    assert not analytics_sandbox.requests


def test_entries_leave_after_their_last_day_everywhere_and_say_why(
    analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any], tmp_path: Path, caplog: Any
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="192.0.2.1")
    analytics_sandbox.add_website("b.example")
    text = "8.8.8.8\n1.1.1.1  # office Berlin, owner=it@example.com, until=2026-11-24\n192.0.2.1 # until=2026-11-24"
    assert sync(text)["expiring"] == [
        {"entry": "1.1.1.1", "until": "2026-11-24", "owner": "it@example.com", "reason": "office Berlin", },
        {"entry": "192.0.2.1", "until": "2026-11-24"},
    ]  # fmt: skip
    world.now += timedelta(days=1)  # its last day
    assert sync(text)["updates"] == 0
    world.now += timedelta(days=1)
    caplog.clear()
    caplog.set_level("INFO")
    result = sync(text)
    assert lists(analytics_sandbox) == {"a.example": ["8.8.8.8"], "b.example": ["8.8.8.8"]}
    assert [one["entry"] for one in result["expired"]] == ["1.1.1.1", "192.0.2.1"]
    assert (result["expiring"], result["updates"]) == ([], 2)
    assert "Expired: 2 lines of the list\n1.1.1.1: until 2026-11-24, owner it@example.com, office Berlin" in caplog.text
    audited = [json.loads(line) for file in sorted(tmp_path.rglob("*.jsonl")) for line in file.read_text().splitlines()]
    last = {line["domain"]: line["sources"] for line in audited}
    why = "expired, until 2026-11-24, owner it@example.com, office Berlin"
    assert last == {
        key: {"1.1.1.1": why, "192.0.2.1": "expired, until 2026-11-24"} for key in ("a.example", "b.example")
    }


def test_entries_that_leave_after_their_last_day_are_no_loss(
    analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any]
) -> None:
    analytics_sandbox.add_website("a.example")
    text = "\n".join(f"192.0.2.{number} # until=2026-11-2{5 if number < 8 else 9}" for number in range(1, 13))
    assert sync(text)["applied"] == 1
    world.now += timedelta(days=3)
    assert (sync(text)["entries_removed"], len(lists(analytics_sandbox)["a.example"])) == (7, 5)


@pytest.mark.parametrize("comment", ["it@x until=2026-11-23", "it@x; until=2026-11-23", "it@x,UNTIL = 2026-11-23"])
def test_a_forgotten_comma_does_not_keep_an_entry_for_ever(
    analytics_sandbox: SandboxServer, sync: Callable[..., Any], comment: str
) -> None:
    analytics_sandbox.add_website("a.example")
    [found] = sync(f"8.8.8.8\n1.1.1.1 # owner={comment}")["expiring"]
    assert (found["entry"], found["until"]) == ("1.1.1.1", "2026-11-23")


def test_an_expired_address_that_a_name_has_stays(
    analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any]
) -> None:
    analytics_sandbox.add_website("a.example")
    world.answers[VPN] = ["1.1.1.1"]
    result = sync(f"1.1.1.1 # until=2026-11-01\n{VPN}")
    assert (result["expired"], lists(analytics_sandbox)) == ([], {"a.example": ["1.1.1.1"]})


def test_owners_and_last_days_in_a_file_of_websites(
    analytics_sandbox: SandboxServer, world: World, execute: Execute, tmp_path: Path, caplog: Any
) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    item = {"entry": "1.1.1.1", "owner": "it@example.com", "reason": "Berlin", "until": TODAY.date()}
    config = {
        "defaults": {"exclude_ips": ["8.8.8.8", item]},
        "websites": {"a.example": None, "b.example": {"also_exclude_ips": ["1.1.1.1"]}},
    }
    path = tmp_path / "websites.yaml"
    path.write_text(yaml.safe_dump(config))
    given = {"config_path": str(path), "state_path": str(tmp_path)}
    result = execute(ApplyWebsitesOperator, **given)
    assert result["verified"] is True
    world.now += timedelta(days=1)
    assert execute(PlanWebsitesOperator, **given)["changes"] == ["update a.example (id 1): exclude_ips remove 1.1.1.1"]
    result = execute(ApplyWebsitesOperator, **given, run_id="again")
    # It also stands in the list of b.example, without a last day.
    assert lists(analytics_sandbox) == {"a.example": ["8.8.8.8"], "b.example": ["8.8.8.8", "1.1.1.1"]}
    assert [one["entry"] for one in result["expired"]] == ["1.1.1.1"]
    [line] = [json.loads(line) for file in tmp_path.rglob("*-again-*.jsonl") for line in file.read_text().splitlines()]
    assert line["sources"] == {"1.1.1.1": "expired, until 2026-11-23, owner it@example.com, Berlin"}
    path.write_text(path.read_text().replace("2026-11-23", "tomorrow"))
    with pytest.raises(AirflowFailException, match=r"websites.yaml:\d: exclude_ips: .* has the last day 'tomorrow'"):
        execute(PlanWebsitesOperator, **given)


def test_a_resolver_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    for_ever = threading.Event()

    def look_up(name: str) -> list[str]:
        if name == VPN:
            for_ever.wait()
        return ["1.1.1.1"]

    monkeypatch.setattr(host_names, "look_up", look_up)
    began = time.monotonic()
    names = [VPN, *(f"{number}.example" for number in range(20))]
    found = host_names.look_up_all(names, timeout=0.5)
    for_ever.set()
    assert time.monotonic() - began < 10
    assert found == {name: ["1.1.1.1"] if name != VPN else "no response within 0.5 s" for name in names}


def test_names_are_looked_up_by_the_resolver_of_the_system(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    """``localhost`` has the addresses of the machine it is looked up on; both families are taken."""
    analytics_sandbox.add_website("a.example")
    given = {"state_path": str(tmp_path), "resolve_names": True}
    execute(SyncExcludedIpsOperator, exclude_ips=["localhost"], **given)
    expected = sorted(host_names.look_up("localhost"))
    assert sorted(lists(analytics_sandbox)["a.example"]) == expected
    assert "127.0.0.1" in expected
    with pytest.raises(AnalyticsError, match=r"nowhere.invalid does not resolve"):
        execute(SyncExcludedIpsOperator, exclude_ips=["localhost", "nowhere.invalid"], **given)


def test_both_families_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(0, 0, 0, "", ("192.0.2.1", 0)), (0, 0, 0, "", ("2001:db8::1", 0, 0, 0)), (0, 0, 0, "", ("192.0.2.1", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: rows)
    assert host_names.look_up("x.example") == ["192.0.2.1", "2001:db8::1"]


def test_why_an_address_is_there(
    analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any], tmp_path: Path, capsys: Any
) -> None:
    for number in range(3):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="192.0.2.7")
    world.answers[VPN] = ["1.1.1.1"]
    sync(f"8.8.8.0/24\n{VPN} # Berlin, owner=it@example.com, until=2027-01-31", networks="send", list_name="offices")
    capsys.readouterr()
    state = str(tmp_path)
    assert main(["why", "1.1.1.1", "--state-path", state]) == 0
    table = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    cells = [[cell.strip() for cell in line if cell] for line in table]
    assert cells == [
        ["ENTRY", "LIST", "FOR", "OWNER", "SINCE", "UNTIL", "HOST NAME", "REASON"],
        [
            "1.1.1.1",
            "offices (exclude_ips)",
            "all websites",
            "it@example.com",
            "2026-11-23",
            "2027-01-31",
            VPN,
            "Berlin",
        ],
    ]
    assert main(["why", "8.8.8.8", "--state-path", state]) == 0
    assert "8.8.8.0/24  offices (exclude_ips)  all websites" in capsys.readouterr().out
    assert main(["why", VPN.upper(), "--state-path", state]) == 0
    assert "1.1.1.1  offices (exclude_ips)  all websites" in capsys.readouterr().out.replace("     ", "")
    assert main(["why", "8.8.8.128/25", "--state-path", state]) == 0
    assert "8.8.8.0/24  offices (exclude_ips)  all websites" in capsys.readouterr().out
    assert main(["why", "192.0.2.7", "--state-path", state]) == 2
    assert "192.0.2.7: no list has it" in capsys.readouterr().out
    assert main(["why", "192.0.2.7", "--state-path", state, "--conn-id", "analytics_default"]) == 0
    assert "192.0.2.7  no list (exclude_ips)  on 3 websites" in capsys.readouterr().out
    assert main(["why", "--state-path", state]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_query_parameters_have_owners_and_last_days_too(
    analytics_sandbox: SandboxServer, world: World, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    given = {"state_path": str(tmp_path)}
    text = "gclid\nspring # campaign, until=2026-11-23"
    execute(SyncExcludedParamsOperator, exclude_params=text, **given)
    world.now += timedelta(days=1)
    execute(SyncExcludedParamsOperator, exclude_params=text, **given)
    assert [website["exclude_params"] for website in analytics_sandbox.websites()] == ["gclid"]


@pytest.mark.parametrize("seed", range(3))
def test_thirty_nights(analytics_sandbox: SandboxServer, world: World, sync: Callable[..., Any], seed: int) -> None:
    """Names move, vanish and come back, entries expire, people type the same addresses; an oracle compares."""
    chance = random.Random(seed)
    domains = [f"{number}.example" for number in range(4)]
    for domain in domains:
        analytics_sandbox.add_website(domain)
    pool = [f"1.1.1.{number}" for number in range(1, 30)]
    names = {f"n{number}.example": chance.sample(pool, 2) for number in range(3)}
    silent: set[str] = set()
    last_answer = {name: (world.now, answer) for name, answer in names.items()}
    shown: dict[str, set[str]] = {domain: set() for domain in domains}
    was_wanted: set[str] = set()
    static = {f"8.8.8.{number}": TODAY.date() + timedelta(days=chance.randint(3, 40)) for number in range(6)}
    text = "\n".join([*(f"{one} # owner=a@example.com, until={day}" for one, day in static.items()), "9.9.9.9", *names])
    for night in range(30):
        for name in names:
            if chance.random() < 0.3:
                names[name] = chance.sample(pool, chance.randint(1, 3))
            is_silent = night > 0 and (name in silent or chance.random() < 0.2)
            if is_silent and chance.random() < 0.9:
                silent.add(name)  # for several nights
            else:
                silent.discard(name)
            world.answers[name] = OSError(-2, "unknown") if is_silent else names[name]
        silent_now = {name for name in names if isinstance(world.answers[name], OSError)}
        record = chance.choice(analytics_sandbox.websites())
        typed = chance.choice(pool)
        if typed not in shown[record["domain"]]:
            there = "\n".join(filter(None, (record["exclude_ips"], typed)))
            analytics_sandbox.change_website(record["id"], exclude_ips=there)
            shown[record["domain"]].add(typed)
        wanted = {one for one, day in static.items() if day >= world.now.date()} | {"9.9.9.9"}
        answers = last_answer | {name: (world.now, names[name]) for name in names.keys() - silent_now}
        wanted |= {address for _, answer in answers.values() for address in answer}
        sent(analytics_sandbox)
        if any(world.now - at > timedelta(days=7) for at, _ in answers.values()):
            with pytest.raises(AnalyticsError):
                sync(text)
            assert not sent(analytics_sandbox)["update"]
            world.now += timedelta(days=1)
            continue
        # What the list had before is the list's own for 90 days, whoever typed it.
        expected = {domain: shown[domain] - was_wanted | wanted for domain in domains}
        was_wanted |= wanted
        differing = sum(expected[domain] != shown[domain] for domain in domains)
        result = sync(text)
        last_answer = answers  # what a failed run is told is not kept
        shown = {domain: set(found) for domain, found in lists(analytics_sandbox).items()}
        assert shown == expected
        assert (result["updates"], sent(analytics_sandbox)["update"]) == (differing, differing)
        world.now += timedelta(days=1)
