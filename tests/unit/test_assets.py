# SPDX-License-Identifier: Apache-2.0
"""Assets and their URIs (``assets.py``)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.providers.common.compat.sdk import Asset
from airflow_versions import asset_handler, needs_no_partitions, needs_openlineage, needs_partitions

from airflow_provider_analytics.assets import convert_asset_to_openlineage, sanitize_uri
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator, snapshot_asset


@pytest.mark.parametrize(
    ("arguments", "uri"),
    [
        ({}, "analytics://analytics_default/websites"),
        ({"analytics_conn_id": "stats"}, "analytics://stats/websites"),
        ({"snapshot_name": "favourites"}, "analytics://analytics_default/favourites"),
        ({"favorite": True}, "analytics://analytics_default/websites?favorite=true"),
        (
            {"favorite": False, "search": "a b&c"},
            "analytics://analytics_default/websites?favorite=false&search=a+b%26c",
        ),
    ],
)
def test_asset_identifies_the_list(arguments: dict[str, Any], uri: str) -> None:
    operator = SnapshotWebsitesOperator(task_id="a_task", base_path="/data", **arguments)
    assert operator.asset.uri == snapshot_asset(**arguments).uri == uri
    assert operator.outlets[0] is operator.asset


@needs_partitions
def test_second_outlet_is_the_partitioned_asset_that_users_cannot_pass() -> None:
    operator = SnapshotWebsitesOperator(task_id="a_task", base_path="/data", favorite=False, search="a b&c")
    second = snapshot_asset(favorite=False, search="a b&c", partitioned=True)
    assert operator.outlets == [operator.asset, second]
    assert "&partitioned=true" in second.uri
    with pytest.raises(ValueError, match=r"asset='analytics://.*partitioned=true' is not allowed. Allowed: "):
        SnapshotWebsitesOperator(task_id="a_task", base_path="/data", asset=snapshot_asset(partitioned=True))


def test_custom_asset_adds_no_partitioned_outlet() -> None:
    theirs = Asset("s3://bucket/websites")
    assert SnapshotWebsitesOperator(task_id="a_task", base_path="/data", asset=theirs).outlets == [theirs]


@needs_no_partitions
def test_partitioned_asset_is_rejected_before_airflow_3_3() -> None:
    with pytest.raises(ValueError, match=r"partitioned=True is not allowed before Airflow 3\.3"):
        snapshot_asset(partitioned=True)
    operator = SnapshotWebsitesOperator(task_id="a_task", base_path="/data")
    assert operator.outlets == [operator.asset]


@pytest.mark.parametrize("name", ["base_path", "snapshot_name", "search", "favorite", "analytics_conn_id"])
@pytest.mark.parametrize("template", ["{{ params.x }}", "a-{% if x %}b{% endif %}"])
def test_template_needs_an_asset_when_the_dag_is_parsed(name: str, template: str) -> None:
    arguments: dict[str, Any] = {"task_id": "a_task", "base_path": "/data", name: template}
    with pytest.raises(ValueError, match=rf"asset is required, because {name}="):
        SnapshotWebsitesOperator(**arguments)
    asset = snapshot_asset("stats")
    assert SnapshotWebsitesOperator(**arguments, asset=asset).asset is asset


def test_airflow_checks_asset_uris_of_the_scheme_analytics() -> None:
    assert asset_handler("analytics") is sanitize_uri


@pytest.mark.parametrize("uri", ["analytics://stats/", "analytics://stats/a/b", "analytics:///websites"])
def test_uri_without_a_dataset_is_rejected(uri: str) -> None:
    with pytest.raises(ValueError, match=r"Allowed: analytics://<connection id>/<snapshot_name>"):
        sanitize_uri(urlsplit(uri))


@needs_openlineage
def test_lineage_keeps_the_asset() -> None:
    from airflow.providers.openlineage.utils.utils import translate_airflow_asset  # type: ignore[import-not-found,unused-ignore]

    found: Any = translate_airflow_asset(Asset("analytics://stats/websites?favorite=true"), None)
    assert (found.namespace, found.name) == ("analytics://stats", "websites?favorite=true")
    assert convert_asset_to_openlineage(Asset("analytics://stats/websites"), None).name == "websites"
