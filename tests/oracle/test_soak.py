"""A bounded slice of ``make soak``, and the oracle itself: it sees what must never happen."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import dialects
import pytest
import soak
from world import ViolationError, World

from airflow_provider_analytics.api.verification import Comparison, Expected
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.server import SandboxServer


def test_worlds_by_chance(analytics_sandbox: SandboxServer, capsys: pytest.CaptureFixture[str]) -> None:
    with soak.at_once():
        tally = soak.soak(analytics_sandbox, 15, seed=0, shrink_seconds=5)
    assert tally.violations == 0, capsys.readouterr().out
    assert tally.green > 0
    assert tally.red > 0


@pytest.mark.parametrize("options", [one for row in dialects.ROWS.values() for one in row], ids=repr)
def test_each_value_of_a_dialect_is_one_of_the_sandbox(options: dict[str, Any]) -> None:
    Options().changed(options)


SYNC = {"do": "sync", "field": "exclude_ips", "entries": ["203.0.113.7"], "mode": "merge", "websites": None}
RESETS: soak.Script = (
    {"updates": "reset others"},
    [{"domain": f"{name}.example", "privacy": 1} for name in "abcd"],
    [SYNC],
)


def test_a_verification_that_compares_nothing_is_seen_and_printed_as_a_script(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with soak.at_once():
        assert soak.play(analytics_sandbox, RESETS) == ""
        monkeypatch.setattr(Expected, "compare", lambda self, shown: Comparison())
        assert "green, but a.example" in soak.play(analytics_sandbox, RESETS)
        small = soak.shrink(analytics_sandbox, RESETS, until=float("inf"))
    assert len(small[1]) == 1
    script = soak.as_script(small).replace("replay(dialect, websites, steps)", "")
    played: dict[str, Any] = {}
    exec(script.partition("from soak import replay")[2], played)
    assert (played["dialect"], played["websites"], played["steps"]) == small


@pytest.mark.parametrize("path", sorted(Path(__file__).with_name("worlds").glob("*.py")), ids=lambda path: path.stem)
def test_a_world_that_failed_once(
    path: Path, analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(soak, "replay", lambda *script: said.append(soak.play(analytics_sandbox, script)))
    with soak.at_once():
        runpy.run_path(str(path))
    assert said == [""]


def test_what_somebody_else_loses_is_seen(
    analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(analytics_sandbox, tmp_path, {}, [{"domain": "a.example"}, {"domain": "b.example"}])

    class Careless:
        def execute(self, context: Any) -> dict[str, Any]:
            analytics_sandbox.remove_website(2)
            return {"deleted": False}

    monkeypatch.setattr("world._make", lambda world, step: Careless())
    with pytest.raises(ViolationError, match=r"b\.example was deleted"):
        world.step({"do": "delete", "domain": "none.example"})
