# SPDX-License-Identifier: Apache-2.0
"""docs/internals/architecture.md: its statement about readers of snapshots.

The number of times that a value is sent again is tested in ``tests/integration/reconcile/apply/test_results.py``, the
snapshots that guards compare in ``tests/unit/snapshots/test_snapshot_guards.py``, and the names in ``test_imports.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

from shelf import Shelf
from upath import UPath

from airflow_provider_analytics.storage import StoragePath


def test_reader_does_not_compare_the_manifest_with_the_digest_in_success(tmp_path: Path) -> None:
    shelf = Shelf(StoragePath.of(UPath(tmp_path)))
    taken = shelf.take(3)
    path = Path(taken.partition.manifest.path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "count": 99}))
    read = shelf.read()
    assert read is not None
    assert read.manifest.count == 99
    assert read.digest != Path(taken.partition.success.path).read_text()
    assert shelf.days() == {20: True}
