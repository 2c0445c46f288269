# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from shelf import Shelf
from upath import UPath

from airflow_provider_analytics.storage import StoragePath


@pytest.fixture
def local(tmp_path: Path) -> Shelf:
    return Shelf(StoragePath.of(UPath(tmp_path / "base")))


@pytest.fixture(params=["file", "memory"])
def shelf(request: pytest.FixtureRequest, local: Shelf) -> Iterator[Shelf]:
    if request.param == "file":
        yield local
        return
    found = Shelf(StoragePath.of(UPath("memory://bucket/base")))
    yield found
    found.fs.store.clear()
    found.fs.pseudo_dirs[:] = [""]
