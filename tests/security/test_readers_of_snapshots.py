"""Whoever may read a snapshot: learns no address that exclude_ips_as keeps out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from fixture_types import Execute, Serving

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.snapshots.catalog import read_snapshot

WEBSITE: dict[str, Any] = {
    "id": 1,
    "domain": "192.0.2.99",  # a website may be an address
    "exclude_ips": "192.0.2.1\n2001:DB8::1",
    "exclude_params": "utm_source",
    "last_seen_from": "192.0.2.2",
    "note": "Office: 192.0.2.3, 2001:db8::3 and http://192.0.2.4:8080/. At 12:30:45 on v1.2.",
    "visits": {"192.0.2.5": 7, "others": [{"ip": "192.0.2.6"}, "192.0.2.7/24", "a"]},
    "count": 7,
}


@pytest.mark.parametrize("how", ["hash", "drop"])
def test_no_address_of_a_record_is_in_a_file(how: str, serving: Serving, execute: Execute, tmp_path: Path) -> None:
    with serving(WEBSITE):
        taken = execute(SnapshotWebsitesOperator, base_path=str(tmp_path), exclude_ips_as=how, report=True)
    text = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert [number for number in range(1, 8) if f"192.0.2.{number}" in text.replace("192.0.2.99", "")] == []
    assert "2001:db8::" not in text.lower()
    snapshot = read_snapshot(str(tmp_path), taken["snapshot_date"])
    assert snapshot is not None
    [row] = snapshot.rows()
    record = json.loads(row["record"])
    assert (row["domain"], row["exclude_params"]) == ("192.0.2.99", "utm_source")
    hashed = "\n".join(f"sha256:{hashlib.sha256(one.encode()).hexdigest()}" for one in ("192.0.2.1", "2001:DB8::1"))
    written = {"exclude_ips": hashed} if how == "hash" else {}
    assert record == {"id": 1, "domain": "192.0.2.99", "exclude_params": "utm_source", **written}
