# SPDX-License-Identifier: Apache-2.0
"""Breaks of the code, at least one for each guarantee of docs/guarantees.md: a test of the guarantee must notice each.

This way, a shortened or removed test cannot remove the only protection of a guarantee unnoticed.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_analytics"


class Break(NamedTuple):
    """A change of the code that breaks a guarantee.

    :param module: module below the package.
    :param old: text of its source, which occurs once.
    :param new: replacement of the text.
    :param path: path of a test file.
    :param name: part of the name of the test that fails.
    """

    module: str
    old: str
    new: str
    path: str
    name: str


#: Guarantee to the breaks of it.
BREAKS: dict[str, list[Break]] = {
    "The website list is complete": [
        Break("api.listing", "if second.total != total or before != after:", "if False:",
              "integration/api/test_fault_matrix.py", "second_read_of_page_1"),
        Break("api.listing", "if end.keys() - self.ids.keys() or (self.ids and last not in end):", "if False:",
              "integration/api/test_fault_matrix.py", "fault_group"),
        Break("api.listing", "if differing or self.total != back.total:", "if False:",
              "integration/api/test_fault_matrix.py", "fault_group"),
    ],
    "A website is created once": [
        Break("api.rejections", 'if method == "POST" and might_have_been_applied(error):', "if False:",
              "integration/api/test_rate_limits.py", "create_is_ambiguous"),
        Break("api.client", "            if len(same) > 1:", "            if False:",
              "integration/api/test_look_up.py", "simultaneous_creates"),
    ],
    "A success is verified": [
        Break("api.verification", "        if missing or extra:", "        if extra:",
              "integration/reconcile/apply/test_misbehaving_services.py", "service_stores_another_result"),
        Break("reconcile.apply.reading", "change = self._still_wanted(target, record)", "change = None",
              "integration/reconcile/apply/test_two_tasks.py", "own_entry"),
    ],
    "A service that damages values is stopped": [
        Break("reconcile.apply.application", "            if repeated:", "            if False:",
              "integration/reconcile/apply/test_misbehaving_services.py", "both_websites_are_restored"),
        Break("reconcile.apply.application", "size = 2 * self._since_problem", "size = 200",
              "integration/reconcile/apply/test_misbehaving_services.py", "batches_grow"),
        Break("reconcile.apply.stopping", "        failure = _restore(sender, target)", '        failure = ""',
              "integration/reconcile/apply/test_misbehaving_services.py", "both_websites_are_restored"),
    ],
    "Tasks and people can work at the same time": [
        Break("reconcile.apply.application", "            repeated = problems & self._noted",
              "            repeated = problems",
              "integration/reconcile/apply/test_two_tasks.py", "simultaneous_tasks_succeed"),
    ],
    "A deleted website is gone": [
        Break("reconcile.apply.reading", "is_gone = record is None or (is_other and target.unconfirmed is None)",
              "is_gone = True", "integration/reconcile/apply/test_misbehaving_services.py", "delete"),
        Break("api.client", "            meant.check(record)\n", "",
              "integration/api/test_one_rule_before_every_write.py", "domain_was_renamed"),
    ],
    "Other users' changes are kept": [
        Break("reconcile.apply.sending",
              "        change = self.change_of(record, target.expected.before, is_new=target.is_new)",
              "        change = target.planned", "integration/reconcile/apply/test_two_tasks.py", "typed_by_hand"),
    ],
    "A managed list changes only its own entries": [
        Break("reconcile.desired.tables", "                if entry in list_of:", "                if False:",
              "integration/operators/test_state_thirty_nights.py", "test_thirty_nights"),
        Break("reconcile.engine", "outcome.is_complete and job.list_file and job.list_file.runs_at_the_same_time():",
              "False:", "integration/operators/test_state_lists_at_the_same_time.py", "after_a_late_update"),
        Break("reconcile.plan.changes", "after + _restored_lines(desired, name, after, record, earlier)", "after",
              "integration/operators/test_state_lists_at_the_same_time.py", "moves_to_another_list"),
        Break("reconcile.engine", "        job.list_file.raise_if_overtaken()", "        pass",
              "integration/operators/test_state_lists_at_the_same_time.py", "overtook"),
        Break("reconcile.desired.tables", "return self.run is not None and today", "return False and today",
              "integration/operators/test_state_thirty_nights.py", "test_thirty_nights"),
        Break("reconcile.desired.tables", "rows[name] = _combined(before, now, lambda",
              "rows[name] = _combined(before, {**before, **now}, lambda",
              "integration/operators/test_state_thirty_nights.py", "test_thirty_nights"),
        Break("reconcile.plan.changes", 'or (mode == "managed" and "#" in line)', "",
              "integration/operators/test_state_thirty_nights.py", "test_thirty_nights"),
        Break("storage", "_replace_local(Path(self.place.path), self._stored[0], content, token)",
              "_replace_local(Path(self.place.path), self._current()[0], content, token)",
              "integration/operators/test_state_thirty_nights.py", "test_thirty_nights"),
    ],
    "A failure is safe": [
        Break("reconcile.apply.targets", "        return self.unconfirmed is not None or (", "        return (",
              "integration/reconcile/apply/test_two_tasks.py", "lost_response"),
    ],
    "A suspicious plan is blocked": [
        Break("reconcile.plan.plan_guards",
              "    if number == 0 or number < len(planned.compared) or job.max_loss_fraction == 1:",
              "    if True:", "unit/reconcile/plan/test_plan_guards.py", "but_never_all"),
    ],
    "Only the approved plan is applied": [
        Break("reconcile.plan.plan_guards", "    if problem:\n        raise ValueError",
              "    if False:\n        raise ValueError", "unit/reconcile/plan/test_plan_guards.py", "approv"),
    ],
    "A snapshot is complete or does not exist": [
        Break("snapshots.catalog", "        if not self.is_published:\n            return None\n", "",
              "unit/snapshots/test_snapshot_publish.py", ""),
    ],
    "A stopped task stops": [
        Break("api.waiting", "return self.is_set and (is_read or time.monotonic() - self._since >= GRACE_SECONDS)",
              "return False", "integration/api/test_stopped_requests.py", "request_ends_at_a_stop"),
    ],
    "Secrets are not disclosed": [
        Break("readable", "    text = _mask(text, is_part)\n    if breaks", "    if breaks",
              "integration/api/test_secrets_on_the_wire.py", ""),
    ],
    "Other files are kept": [
        Break("snapshots.retention", "    if days and not any(has_manifest(series.partition(day)) for day in days):",
              "    if False:", "unit/snapshots/test_snapshot_retention.py", ""),
    ],
}  # fmt: skip


@pytest.mark.repository
@pytest.mark.slow
@pytest.mark.chosen(3)
@pytest.mark.parametrize(
    "broken",
    [pytest.param(item, id=f"{guarantee}: {item.module}") for guarantee, items in BREAKS.items() for item in items],
)
def test_break_of_a_guarantee_is_noticed(broken: Break) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "breaking"]
    command += [
        "--break",
        f"{PACKAGE}.{broken.module}",
        broken.old,
        broken.new,
        f"tests/{broken.path}",
        "-k",
        broken.name,
    ]
    support = str(ROOT / "tests" / "support")
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": support}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 1, f"no test of {broken.path} with {broken.name!r} fails any more:\n{done.stdout[-2000:]}"


@pytest.mark.repository
def test_every_break_still_matches_the_code() -> None:
    """A developer who changes the code sees a mismatch at once, without the slow tests."""
    missing, without_test = [], []
    for item in itertools.chain(*BREAKS.values()):
        source = (ROOT / PACKAGE / f"{item.module.replace('.', '/')}.py").read_text("utf-8")
        if source.count(item.old) != 1:
            missing.append(f"{item.module}: {item.old}")
        if item.name not in (ROOT / "tests" / item.path).read_text("utf-8"):
            without_test.append((item.path, item.name))
    assert not missing, "write these breaks anew for the code as it is now"
    assert not without_test, "these tests have other names now"


def test_every_guarantee_has_a_break() -> None:
    document = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    guarantees = set(re.findall(r"^## (.+)$", document.partition("\n## Conditions")[0], re.MULTILINE))
    assert guarantees == BREAKS.keys()
