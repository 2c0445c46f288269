"""A bounded slice of ``make soak``, and the oracle itself: it sees what must never happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dialects
import pytest
import soak
import yaml
from world import ViolationError, World
from zoo import Zoo, ZooOptions

from airflow_provider_analytics.api.verification import Comparison, Expected


def test_worlds_by_chance(analytics_sandbox: Zoo, capsys: pytest.CaptureFixture[str]) -> None:
    with soak.at_once():
        tally = soak.soak(analytics_sandbox, 15, seed=0, shrink_seconds=5)
    assert tally.violations == 0, capsys.readouterr().out
    assert tally.green > 0
    assert tally.red > 0


@pytest.mark.parametrize("options", [one for row in dialects.ROWS.values() for one in row], ids=repr)
def test_each_value_of_a_dialect_is_one_of_the_sandbox(options: dict[str, Any]) -> None:
    ZooOptions().changed(options)


#: Worlds in which something happened once that must never happen.
WORLDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("worlds.yaml").read_text())

SYNC = {"do": "sync", "field": "exclude_ips", "entries": ["203.0.113.7"], "mode": "merge", "websites": None}
RESETS: soak.Script = (
    {"updates": "reset others"},
    [{"domain": f"{name}.example", "privacy": 1} for name in "abcd"],
    [SYNC],
)


def test_a_verification_that_compares_nothing_is_seen_and_printed_as_a_script(
    analytics_sandbox: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with soak.at_once():
        assert soak.play(analytics_sandbox, RESETS) == ""
        monkeypatch.setattr(Expected, "compare", lambda *_: Comparison())
        assert "green, but a.example" in soak.play(analytics_sandbox, RESETS)
        small = soak.shrink(analytics_sandbox, RESETS, until=float("inf"))
    assert len(small[1]) == 1
    script = soak.as_script(small).replace("replay(dialect, websites, steps)", "")
    played: dict[str, Any] = {}
    exec(script.partition("from soak import replay")[2], played)
    assert (played["dialect"], played["websites"], played["steps"]) == small


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_a_world_that_failed_once(world: dict[str, Any], analytics_sandbox: Zoo) -> None:
    with soak.at_once():
        assert soak.play(analytics_sandbox, (world["dialect"], world["websites"], world["steps"])) == "", world["title"]


def test_what_somebody_else_loses_is_seen(
    analytics_sandbox: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(analytics_sandbox, tmp_path, {}, [{"domain": "a.example"}, {"domain": "b.example"}])

    class Careless:
        def execute(self, context: Any) -> dict[str, Any]:
            analytics_sandbox.remove_website(2)
            return {"deleted": False}

    monkeypatch.setattr("world._make", lambda world, step: Careless())
    with pytest.raises(ViolationError, match=r"b\.example was deleted"):
        world.step({"do": "delete", "domain": "none.example"})
