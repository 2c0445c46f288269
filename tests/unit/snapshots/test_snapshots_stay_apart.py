"""snapshots/ is free of Airflow, and DAG files that use its operators are parsed fast."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODULES = ["take", "comparison", "report", "reader", "publish"]


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", MODULES)
def test_airflow_is_not_imported(module: str) -> None:
    assert "airflow" not in loaded_by(f"import airflow_provider_analytics.snapshots.{module}")


def test_the_operators_import_nothing_heavy() -> None:
    base = loaded_by("import airflow_provider_analytics.operators.base")
    loaded = loaded_by("import airflow_provider_analytics.operators.snapshots")
    assert not {"fsspec", "matplotlib", "pyarrow", "pandas", "sqlite3", "zstandard", "msgspec"} & (loaded - base)
