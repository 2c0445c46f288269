# SPDX-License-Identifier: Apache-2.0
"""``make demo``: it leaves a snapshot, and prints only understandable lines."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from airflow_versions import needs_the_screens_of_3_3


@needs_the_screens_of_3_3
def test_make_demo_leaves_a_snapshot(checkout: Path, environment: dict[str, str]) -> None:
    answer = subprocess.run(
        ["make", "demo"], cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "nightly_website_snapshot is in state success" in answer.stdout
    assert "Websites on disk: 250, distinct ids: 250" in answer.stdout
    # It prints understandable lines, not Airflow's log; the next step is last, and names existing files.
    assert len(answer.stdout.splitlines()) <= 30
    # For a shortened list, it prints the reason, and how to publish it anyway.
    assert "is in state failed" in answer.stdout
    assert "The list has 150 websites, 40% fewer than 250" in answer.stdout
    assert '--conf \'{"override_guards": ["fewer_websites"]}\'' in answer.stdout
    end = answer.stdout.partition("What to do next:")[2]
    assert "make ui" in end
    named = re.findall(r"(?:docs|dags)/\w+\.\w+", end)
    assert len(named) == 2
    assert all((checkout / name).exists() for name in named)

    place = next(line.removeprefix("Snapshot: ") for line in answer.stdout.splitlines() if "Snapshot: " in line)
    [data] = Path(place).glob("*.jsonl")
    domains = {json.loads(line)["domain"] for line in data.read_text("utf-8").splitlines()}
    assert len(domains) == 250
