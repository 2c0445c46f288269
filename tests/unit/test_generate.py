# SPDX-License-Identifier: Apache-2.0
"""``make generate`` and ``make constraints``: error messages for missing entries, and pins that are kept."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import generate
import pytest

CHECKOUT = Path(__file__).parents[2]


def listed(lines: Callable[[], Iterable[str]]) -> None:
    list(lines())


@pytest.mark.repository
@pytest.mark.parametrize(
    ("module", "name", "value", "lines", "said"),
    [
        pytest.param(
            generate, "COLUMNS", lambda: {"new_column": "string"}, generate.columns,
            "MEANINGS in airflow_provider_analytics/snapshots/formats.py has no entry for 'new_column'", id="column",
        ),
        pytest.param(
            generate, "CONNECTION_TYPE", lambda: {"conn-fields": {"new_extra": {"description": "New."}}},
            generate.extras, "Settings in airflow_provider_analytics/api/settings.py has no entry for 'new_extra'",
            id="extra",
        ),
        pytest.param(
            generate, "AIRFLOW_DAYS", dict, generate.policy, "AIRFLOW_DAYS in scripts/generate.py has no entry for",
            id="Airflow version",
        ),
        pytest.param(
            generate, "BLOCKS", dict, generate.contents, "BLOCKS in scripts/generate.py has no entry for", id="block",
        ),
    ],
)  # fmt: skip
def test_generate_names_the_file_to_edit_if_an_entry_is_missing(
    module: Any, name: str, value: Callable[[], Any], lines: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value())
    with pytest.raises(SystemExit, match=said):
        listed(lines)


def test_generate_fails_if_a_manifest_key_has_no_description(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = {"description": "A manifest.", "properties": {"new_key": {"type": "string"}}}
    monkeypatch.setattr(generate, "manifest_schema", lambda: {"$defs": {"Manifest": definition}})
    with pytest.raises(
        SystemExit, match=r"docstring of Manifest in .*/snapshots/manifest.py has no entry for 'new_key'"
    ):
        listed(generate.keys_of_a_manifest)


@pytest.mark.repository
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_constraints_keep_the_other_pins_if_something_is_only_added() -> None:
    def commands(*arguments: str) -> str:
        command = ["make", "--dry-run", "--old-file=.tools/bin/uv", "constraints", *arguments]
        return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout

    assert commands().count("pip compile") == commands().count("--upgrade") == 3
    assert commands("ADD=1").count("pip compile") == 3
    assert "--upgrade" not in commands("ADD=1")
