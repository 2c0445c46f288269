# SPDX-License-Identifier: Apache-2.0
"""A bounded slice of ``make soak``, and the oracle itself: it sees what must never happen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import soak
import yaml
from fake_services import FakeService

from airflow_provider_analytics.api.verification import Comparison, ExpectedRecord


def test_random_scenarios_have_no_violation(analytics_sandbox: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    with soak.at_once():
        tally = soak.soak(analytics_sandbox, 15, seed=0, shrink_seconds=5)
    assert tally["violations"] == 0, capsys.readouterr().out
    assert tally["green"] > 0
    assert tally["red"] > 0


#: Scenarios in which something happened once that must never happen.
SCENARIOS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("scenarios.yaml").read_text())

SYNC = {"do": "sync", "field": "exclude_ips", "entries": ["203.0.113.7"], "mode": "merge", "websites": None}
RESETS: soak.Script = (
    {"updates": "reset others"},
    [{"domain": f"{name}.example", "privacy": 1} for name in "abcd"],
    [SYNC],
)


def test_fuzzer_reports_a_verification_that_compares_nothing(
    analytics_sandbox: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with soak.at_once():
        assert soak.play(analytics_sandbox, RESETS, Counter()) == ""
        monkeypatch.setattr(ExpectedRecord, "compare", lambda *_: Comparison())
        assert "green, but a.example" in soak.play(analytics_sandbox, RESETS, Counter())
        small = soak.shrink(analytics_sandbox, RESETS, until=float("inf"))
    assert len(small[1]) == 1
    printed = yaml.safe_load(soak.as_yaml(small, 7))["scenario_7"]
    assert (printed["dialect"], printed["websites"], printed["steps"]) == small


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_scenario_that_failed_once_succeeds(scenario: dict[str, Any], analytics_sandbox: FakeService) -> None:
    with soak.at_once():
        assert (
            soak.play(analytics_sandbox, (scenario["dialect"], scenario["websites"], scenario["steps"]), Counter())
            == ""
        ), scenario["title"]


@pytest.mark.slow
def test_scenario_has_the_same_outcome_each_time_it_is_replayed(analytics_sandbox: FakeService) -> None:
    """The order of canaries and all pauses come from one seeded source of random numbers."""
    with soak.at_once():
        for seed in range(20):
            script = soak.Draw(seed).script()
            tallies = [Counter[str]() for _ in range(10)]
            problems = {soak.play(analytics_sandbox, script, tally) for tally in tallies}
            assert len(problems) == 1
            assert all(tally == tallies[0] for tally in tallies), f"seed {seed}: {tallies}"
