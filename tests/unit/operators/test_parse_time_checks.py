# SPDX-License-Identifier: Apache-2.0
"""Parse-time checks: wrong literal arguments fail when the DAG is parsed, templates fail in the run (``operators``)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseOperator

from airflow_provider_analytics.api import entries, fields
from airflow_provider_analytics.operators.base import CHOICES, COMPRESSIONS
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
    snapshot_asset,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)
from airflow_provider_analytics.reconcile.desired import desired_state as desired
from airflow_provider_analytics.snapshots import formats

#: Operator to allowed arguments, to which a single wrong argument is added.
GIVEN: dict[type[BaseOperator], dict[str, Any]] = {
    CreateWebsiteOperator: {"domain": "a.example"},
    ExportWebsitesOperator: {"output_path": "/data/websites.yaml"},
    SnapshotWebsitesOperator: {"base_path": "/data", "asset": snapshot_asset()},
    CompareSnapshotsOperator: {"base_path": "/data"},
    PruneSnapshotsOperator: {"base_path": "/data"},
    SyncExcludedIpsOperator: {"exclude_ips": ["192.0.2.1"]},
    SyncExcludedParamsOperator: {"exclude_params": ["utm"]},
}
#: Operator, argument, a wrong value, and a part of the message.
WRONG: list[tuple[type[BaseOperator], str, Any, str]] = [
    (SyncExcludedIpsOperator, "mode", "merged", "Allowed: merge, replace, managed. The closest is 'merge'"),
    (SyncExcludedIpsOperator, "override_guards", ["count"], "override_guards='count' is not allowed"),
    (SyncExcludedIpsOperator, "exclude_ips", ["192.0.2.300"], "192.0.2.300"),
    (SyncExcludedIpsOperator, "exclude_ips", "203.0.113.7\n198.51.100", "198.51.100"),
    (SyncExcludedIpsOperator, "exclude_ips", "/data/list.txt", "To read a file, use exclude_ips_path"),
    (SyncExcludedIpsOperator, "networks", "split", "networks='split' is not allowed"),
    (SyncExcludedIpsOperator, "per_website", {"a.example": ["192.0.2.300"]}, "192.0.2.300"),
    (SyncExcludedIpsOperator, "websites", {"favourite": True}, "The closest is 'favorite'"),
    (SyncExcludedIpsOperator, "except_websites", [None], "except_websites=None is not allowed"),
    (SyncExcludedIpsOperator, "approved_digest", "abc", "approved_digest='abc' is not allowed"),
    (SyncExcludedIpsOperator, "dry_run", "perhaps", "dry_run='perhaps' is not allowed. Allowed: True or False"),
    (SyncExcludedIpsOperator, "state_path", "analytics/state", "state_path='analytics/state' is not allowed"),
    (SyncExcludedParamsOperator, "max_loss_fraction", 30, "max_loss_fraction=30 is not allowed. Allowed: 0 to 1"),
    (SyncExcludedParamsOperator, "exclude_params", "['utm']", "exclude_params"),
    (SyncExcludedParamsOperator, "exclude_params", ["ref", "?gclid"], "write 'gclid'"),
    (UpdateWebsiteOperator, "exclude_params", ["utm_source=news"], "write 'utm_source'"),
    (CreateWebsiteOperator, "domain", "*.example.com", "write example.com"),
    (SnapshotWebsitesOperator, "format", "json", "format='json' is not allowed. Allowed: jsonl, csv, parquet"),
    (SnapshotWebsitesOperator, "compression", "zip", "compression='zip' is not allowed"),
    (SnapshotWebsitesOperator, "exclude_ips_as", "hashed", "exclude_ips_as='hashed' is not allowed"),
    (SnapshotWebsitesOperator, "on_late", "label", "on_late='label' is not allowed. Allowed: fail, skip, publish"),
    (SnapshotWebsitesOperator, "ignore_fields", ["visits"], "ignore_fields='visits' is not allowed"),
    (SnapshotWebsitesOperator, "html_report", "yes", "html_report='yes' is not allowed"),
    (SnapshotWebsitesOperator, "base_path", "data/analytics", "base_path='data/analytics' is not allowed"),
    (CompareSnapshotsOperator, "on_change", "report", "on_change='report' is not allowed. Allowed: log, fail, skip"),
    (CompareSnapshotsOperator, "current", "2026-13-01", "current='2026-13-01' is not allowed"),
    (PruneSnapshotsOperator, "keep_days", -1, "keep_days=-1 is not allowed"),
    (ListWebsitesOperator, "per_page", 30, "per_page=30 is not allowed. Allowed: 10, 25, 50, 100"),
    (ListWebsitesOperator, "sort", "up", "sort='up' is not allowed. Allowed: desc, asc"),
    (ListWebsitesOperator, "max_records", 0, "max_records=0 is not allowed"),
    (GetWebsiteOperator, "domain", "https://a.example", "domain='https://a.example' is not allowed"),
    (CreateWebsiteOperator, "privacy", "secret", "privacy='secret' is not allowed"),
    (CreateWebsiteOperator, "if_exists", "replace", "if_exists='replace' is not allowed"),
    (UpdateWebsiteOperator, "exclude_ips", "192.0.2.300", "192.0.2.300"),
    (UpdateWebsiteOperator, "password_from", "variable:api_key", "password_from='variable:api_key' is not allowed"),
    (DeleteWebsiteOperator, "website_id", "1/../2", "website_id='1/../2' is not allowed"),
    (DeleteWebsiteOperator, "ignore_if_missing", "maybe", "ignore_if_missing='maybe' is not allowed"),
    (PlanWebsitesOperator, "override_guards", "many_delete", "The closest is 'many_deleted'"),
    (ApplyWebsitesOperator, "config_path", "websites.yaml", "config_path='websites.yaml' is not allowed"),
    (CheckDriftOperator, "on_drift", "report", "on_drift='report' is not allowed. Allowed: fail, skip, log"),
    (ExportWebsitesOperator, "websites", [True], "websites=True is not allowed"),
]
each_wrong_value = pytest.mark.parametrize(
    ("operator", "argument", "value", "message"), WRONG, ids=[f"{row[0].__name__}-{row[1]}" for row in WRONG]
)


@each_wrong_value
def test_wrong_literal_fails_when_the_dag_is_parsed(
    operator: type[BaseOperator], argument: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=argument) as caught:
        operator(task_id="task", **GIVEN.get(operator, {}) | {argument: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(("operator", "argument", "value"), [row[:3] for row in WRONG])
def test_template_output_or_mapped_value_is_checked_only_at_run_time(
    operator: type[BaseOperator], argument: str, value: Any
) -> None:
    given = GIVEN.get(operator, {})
    others = {name: other for name, other in given.items() if name != argument}
    template = f"{{{{ {value!r} }}}}"
    with DAG("a_dag", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        rendered = operator(task_id="rendered", **given | {argument: template})
        after = operator(task_id="after", **given | {argument: ListWebsitesOperator(task_id="before").output})
        operator.partial(task_id="mapped", **others).expand(**{argument: [value]})
    assert template in vars(rendered).values()
    assert after.upstream_task_ids == {"before"}
    assert "mapped" in dag.task_ids


def test_expired_entry_passes_when_the_dag_is_parsed() -> None:
    expired = "192.0.2.1  # until=2020-01-31"
    SyncExcludedIpsOperator(task_id="sync", exclude_ips=expired, state_path="/data/state")
    UpdateWebsiteOperator(task_id="update", website_id=1, exclude_ips=expired)


def test_choices_equal_the_choices_of_the_modules_that_use_them() -> None:
    assert CHOICES["exclude_ips_as"] == tuple(formats.EXCLUDE_IPS_AS)
    assert set(CHOICES["format"]) == set(formats.FORMATS)
    assert set(COMPRESSIONS) == set(formats.COMPRESSIONS)
    assert CHOICES["mode"] == desired.MODES
    assert CHOICES["networks"] == entries.NETWORKS
    assert CHOICES["per_page"] == fields.PAGE_SIZES
