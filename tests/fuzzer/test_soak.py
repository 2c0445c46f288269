# SPDX-License-Identifier: Apache-2.0
"""Fuzzer: random scenarios, earlier violations, and explanations (``tests/fuzzer/soak.py``, ``scenario.py``)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import scenario as scenario_module
import soak
import yaml
from fake_services import FakeService
from scenario import VERIFIED_SUCCESS, ViolationError

from airflow_provider_analytics.api.verification import Comparison, ExpectedRecord


def test_random_scenarios_have_no_violation(analytics_sandbox: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    with soak.without_waits():
        tally = soak.soak(analytics_sandbox, 8, seed=0, shrink_seconds=5)
    assert tally["violations"] == 0, capsys.readouterr().out
    assert tally["succeeded"] > 0
    assert tally["failed"] > 0


ROOT = Path(__file__).parents[2]

#: Scenarios that had a violation once. Each process of the tests reads them, so a parser in C does it.
SCENARIOS: dict[str, Any] = yaml.load(Path(__file__).with_name("scenarios.yaml").read_text(), Loader=yaml.CSafeLoader)

SYNC = {"do": "sync", "field": "exclude_ips", "entries": ["203.0.113.7"], "mode": "merge", "websites": None}
RESETS: soak.Script = (
    {"updates": "reset others"},
    [{"domain": f"{name}.example", "privacy": 1} for name in "abcd"],
    [SYNC],
)


def test_fuzzer_reports_a_verification_that_compares_nothing(
    analytics_sandbox: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with soak.without_waits():
        assert soak.play(analytics_sandbox, RESETS, Counter()) == ""
        monkeypatch.setattr(ExpectedRecord, "compare", lambda *_: Comparison())
        explanation = soak.play(analytics_sandbox, RESETS, Counter())
        small = soak.shrink(analytics_sandbox, RESETS, until=float("inf"))
    service_and_tasks, guarantee, event = explanation.split("\n", 2)
    assert service_and_tasks == "On a service with updates='reset others' and 4 websites, step 1 was sync."
    assert guarantee == "Guarantee: A success is verified."
    assert event.startswith(
        "Instead, the task succeeded without naming the unexpected values of a.example (1): privacy"
    )
    assert len(small[1]) == 1
    printed = yaml.safe_load(soak.as_yaml(small, 7))["scenario_7"]
    assert (printed["dialect"], printed["websites"], printed["steps"]) == small


def test_explanation_names_the_service_the_earlier_steps_and_the_events() -> None:
    kill = {**SYNC, "meanwhile": [[3, "kill", True]]}
    both = {"do": "both", "first": SYNC, "second": {"do": "apply"}, "meanwhile": [[2, "hand", {}], [5, "hand", {}]]}
    violation = ViolationError(VERIFIED_SUCCESS, "the task returned deleted=True")
    assert soak.explanation(({}, [], [kill, both, SYNC]), 2, violation) == (
        "On an ordinary service and 0 websites, step 2 was sync and apply at the same time (hand at request 2, "
        "hand at request 5), after sync (kill at request 3).\n"
        "Guarantee: A success is verified.\n"
        "Instead, the task returned deleted=True"
    )


def test_guarantees_of_the_fuzzer_are_headings_of_the_document() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8"), re.MULTILINE)
    guarantees = {value for name, value in vars(scenario_module).items() if name.isupper() and isinstance(value, str)}
    assert len(guarantees) > 10
    assert guarantees - {scenario_module.REQUEST_LIMIT} <= set(headings)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_recorded_scenario_has_no_violation_any_more(scenario: dict[str, Any], analytics_sandbox: FakeService) -> None:
    with soak.without_waits():
        assert (
            soak.play(analytics_sandbox, (scenario["dialect"], scenario["websites"], scenario["steps"]), Counter())
            == ""
        ), scenario["title"]


@pytest.mark.slow
def test_scenario_has_the_same_outcome_in_every_replay(analytics_sandbox: FakeService) -> None:
    """The order of websites and all pauses come from the same seeded random generator; that of threads does not."""

    def in_one_thread(step: dict[str, Any]) -> dict[str, Any]:
        parts: dict[str, Any] = {name: in_one_thread(step[name]) for name in ("first", "second") if name in step}
        return {**step, **parts, "parallel_requests": 1}

    with soak.without_waits():
        for seed in range(20):
            dialect, websites, steps = soak.ScenarioGenerator(seed).script()
            script = dialect, websites, list(map(in_one_thread, steps))
            tallies = [Counter[str]() for _ in range(10)]
            problems = {soak.play(analytics_sandbox, script, tally) for tally in tallies}
            assert len(problems) == 1
            assert all(tally == tallies[0] for tally in tallies), f"seed {seed}: {tallies}"
