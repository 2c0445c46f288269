# SPDX-License-Identifier: Apache-2.0
"""The sample DAGs, as Airflow loads them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any
from unittest import mock

SAMPLES = Path(__file__).parents[2] / "dags"


def sample(name: str, folder: Path | str = "/nowhere") -> Any:
    """Return a new module of a sample DAG.

    :param folder: folder of its files: ``ANALYTICS_FOLDER``.
    """
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(os.environ, {"ANALYTICS_FOLDER": str(folder)}):
        spec.loader.exec_module(module)
    return module


def sample_dag(name: str, folder: Path | str = "/nowhere") -> Any:
    """Return the DAG of a sample."""
    return getattr(sample(name, folder), name)()
