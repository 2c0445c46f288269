# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md: each message is a part of an error or a warning that really occurs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
#: First message of each entry to the rest of the entry.
ENTRIES = dict(re.findall(r"^### .+\n\n\*\*Message:\*\* `(.+?)`((?:(?!##).*\n)+)", TEXT, re.MULTILINE))


class Scenario:
    """Arguments and helpers of the cases."""

    def __init__(self, sandbox: SandboxServer, connect: Any, execute: Any, folder: Path, patch: Any) -> None:
        self.sandbox, self.connect, self.execute, self.folder, self.patch = sandbox, connect, execute, folder, patch

    def account(self, **connection: Any) -> None:
        """Use a connection that differs in some fields."""
        self.connect(**connection)
        self.execute(GetAccountOperator)

    def fault(self, operation: Any, operator: type, arguments: dict[str, Any], **fault: Any) -> None:
        self.connect()
        self.sandbox.seed(3)
        self.sandbox.fault(operation, times=None, **fault)
        self.execute(operator, **arguments)

    def unchanged(self, number: int) -> None:
        """Sync websites that do not store the list."""
        self.sandbox.seed(number)
        self.sandbox.configure(ignored_fields=["exclude_ips"])
        self.sync(["192.0.2.1"])

    def rejected(self, number: int) -> None:
        """Sync five websites, of which this number reject the change."""
        self.sandbox.seed(5)
        self.sandbox.fault("update", status=409, times=number)
        self.sync(["192.0.2.1"])

    def sync(self, addresses: list[str] | str, **arguments: Any) -> None:
        self.execute(SyncExcludedIpsOperator, exclude_ips=addresses, **arguments)

    def managed(self, *addresses: str, **arguments: Any) -> None:
        if not self.sandbox.websites():
            self.sandbox.seed(1)
        self.sync([*addresses], **{"state_path": str(self.folder), **arguments})

    def table(self, change: Callable[[str], str]) -> None:
        """Run a list whose file has changed in the meantime."""
        self.managed("192.0.2.1")
        [path] = self.folder.glob("*/lists/*.json")
        path.write_text(change(path.read_text()))
        self.managed("192.0.2.1")

    def snapshot(self, **arguments: Any) -> None:
        self.execute(SnapshotWebsitesOperator, **{"base_path": str(self.folder), **arguments})

    def nights(self, *numbers: int) -> None:
        """Take snapshots of lists with these numbers of websites."""
        for number in numbers:
            self.sandbox.reset()
            self.sandbox.seed(number)
            self.snapshot()

    def snapshots(self, *arguments: dict[str, Any]) -> None:
        self.sandbox.seed(20)
        for given in arguments:
            self.snapshot(**given)


def no_nullable(scenario: Scenario) -> None:
    element = scenario.sandbox.add_website("shop.example", exclude_ips="192.0.2.1")
    message = "The exclude ips field must be a string."
    scenario.sandbox.fault("update", status=422, body={"message": message, "errors": {"exclude_ips": [message]}})
    scenario.execute(UpdateWebsiteOperator, website_id=element["id"], exclude_ips=[])


def not_taken(scenario: Scenario) -> None:
    scenario.sandbox.add_website("shop.example", privacy=0)
    scenario.sandbox.configure(ignored_fields=["privacy"])
    scenario.execute(UpdateWebsiteOperator, domain="shop.example", privacy="private")


def no_folder(scenario: Scenario) -> None:
    (scenario.folder / "file").write_text("in the way")
    scenario.snapshots({"base_path": str(scenario.folder / "file")})


def websites_gone(scenario: Scenario) -> None:
    scenario.sandbox.seed(20)
    scenario.managed("192.0.2.1")
    for website in scenario.sandbox.websites()[:15]:
        scenario.sandbox.remove_website(website["id"])
    scenario.managed("192.0.2.1")


def typed_again(scenario: Scenario) -> None:
    scenario.managed("192.0.2.1", "192.0.2.2")
    scenario.managed("192.0.2.1")
    scenario.sandbox.change_website(scenario.sandbox.websites()[0]["id"], exclude_ips="192.0.2.1\n192.0.2.2")
    scenario.managed("192.0.2.1")


def full_disk(scenario: Scenario) -> None:
    with Path("/dev/full").open("wb") as device:
        scenario.patch.setattr("airflow_provider_analytics.reconcile.audit_trail.open_own", lambda *_: device)
        scenario.managed("192.0.2.1", mode="merge")


def without_credentials(scenario: Scenario) -> None:
    def reject(*_: Any, **__: Any) -> None:
        raise RuntimeError("Unable to locate credentials")

    scenario.managed("192.0.2.1")
    scenario.patch.setattr(LocalFileSystem, "ls", reject)
    scenario.managed("192.0.2.1")


def file_in_the_way(scenario: Scenario) -> None:
    (scenario.folder / "file").write_text("")
    scenario.managed("192.0.2.1", state_path=str(scenario.folder / "file"))


#: Heading to the call that causes its error or warning.
CASES: dict[str, Callable[[Scenario], Any]] = {
    "API key rejected": lambda scenario: scenario.account(password="0123456789"),
    "The list might be incomplete": lambda scenario: scenario.fault(
        "any", ListWebsitesOperator, {}, options={"total_offset": 3}
    ),
    "might have been created": lambda scenario: scenario.fault(
        "create", CreateWebsiteOperator, {"domain": "new.example"}, drop=True
    ),
    "The service rejected": no_nullable,
    "is not as expected after the write": not_taken,
    "websites failed": lambda scenario: scenario.rejected(3),
    "websites but did not store": lambda scenario: scenario.unchanged(3),
    "more than max_loss_fraction": lambda scenario: scenario.nights(20, 5),
    "Cannot write the snapshot to": no_folder,
    "of the last run are missing from the list": websites_gone,
    "Removing entries that were removed from the list earlier": typed_again,
    "The storage cannot write": full_disk,
    "A later run of the list": lambda scenario: scenario.table(
        lambda text: (
            re.sub('"began": "....', '"began": "9999', text)
            .replace("manual__2026", "manual__9999")
            .replace("192.0.2.1", "192.0.2.9")
        )
    ),
}
#: Other words of an error or a warning to the heading of their entry, and to the call that causes them.
WORDS: dict[str, tuple[str, Callable[[Scenario], Any]]] = {
    "1 website failed": ("websites failed", lambda scenario: scenario.rejected(1)),
    "check 'total'": ("The list might be incomplete", CASES["The list might be incomplete"]),
    "Not in the audit trail": ("The storage cannot write", full_disk),
    "The storage cannot read": ("The storage cannot write", without_credentials),
    "cannot be written": ("The storage cannot write", file_in_the_way),
    "must be a string": ("The service rejected", no_nullable),
}


def test_troubleshooting_entries_and_cases_refer_to_each_other() -> None:
    assert sorted(ENTRIES) == sorted(CASES)
    assert len(ENTRIES) == TEXT.partition("\n## Recovery: undo a change\n")[0].count("\n### ")


@pytest.mark.repository
def test_every_check_of_a_list_has_advice() -> None:
    source = (ROOT / "airflow_provider_analytics" / "api" / "listing.py").read_text(encoding="utf-8")
    checks = re.findall(r'(?:IncompleteListError|_list_changed)\(\s*"([a-z ]+)"', source)
    assert sorted(set(checks)) == sorted(re.findall(r"'([a-z ]+)'", ENTRIES["The list might be incomplete"]))


@pytest.mark.parametrize(
    ("words", "heading", "provoke"),
    [
        *((heading, heading, provoke) for heading, provoke in CASES.items()),
        *((words, *entry) for words, entry in WORDS.items()),
    ],
    ids=[*CASES, *WORDS],
)
def test_troubleshooting_entry_quotes_the_error(
    words: str,
    heading: str,
    provoke: Callable[[Scenario], Any],
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    task_log: Callable[[], str],
) -> None:
    assert words in f"{heading}\n{ENTRIES[heading]}"
    try:
        provoke(Scenario(analytics_sandbox, connect, execute, tmp_path, monkeypatch))
    except Exception as error:
        text = str(error)
    else:  # a warning
        text = ""
    assert words in text + task_log()
