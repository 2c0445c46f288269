# SPDX-License-Identifier: Apache-2.0
"""Addresses of the assets: ``analytics://<connection id>/<snapshot_name>``, with the filters of the list as query.

The provider metadata refers to these functions. Airflow calls them to validate addresses of this scheme, and to convert
them for OpenLineage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.common.compat.sdk import Asset

SCHEME = "analytics"


def asset_uri(conn_id: str, snapshot_name: str, *, search: str | None = None, favorite: bool | None = None) -> str:
    """Return the address of the asset for a list of websites."""
    filters = {}
    if favorite is not None:
        filters["favorite"] = str(favorite).lower()
    if search:
        filters["search"] = search
    uri = f"{SCHEME}://{quote(conn_id, safe='')}/{quote(snapshot_name, safe='')}"
    if filters:
        uri += f"?{urlencode(filters)}"
    return uri


def partitioned_uri(uri: str) -> str:
    """Return the address of the asset with one event per day, for the snapshots of the list at ``uri``."""
    parts = urlsplit(uri)
    return parts._replace(query=urlencode([*parse_qsl(parts.query), ("partitioned", "true")])).geturl()


def is_partitioned(uri: str) -> bool:
    """Return whether an address was built by :func:`partitioned_uri`."""
    return ("partitioned", "true") in parse_qsl(urlsplit(uri).query)


def can_partition() -> bool:
    """Return whether a task of this version of Airflow can set the partition key of an event."""
    try:
        from airflow.sdk.execution_time.context import OutletEventAccessor
    except ImportError:  # Airflow 2
        return False
    return hasattr(OutletEventAccessor, "add_partitions")


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the address unchanged if it contains a connection and a snapshot name.

    :raises ValueError: otherwise.
    """
    name = uri.path.strip("/")
    if not uri.netloc or not name or "/" in name:
        raise ValueError(f"uri={uri.geturl()!r} is not allowed. Allowed: analytics://<connection id>/<snapshot_name>")
    return uri


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:  # noqa: ARG001 - passed by OpenLineage
    """Return the OpenLineage dataset of an asset."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    return Dataset(*openlineage_name(asset.uri))


def openlineage_name(uri: str) -> tuple[str, str]:
    """Return the OpenLineage namespace and name of an asset, file or folder."""
    parts = urlsplit(uri)
    if parts.scheme in {"", "file"}:
        return "file", parts.path
    name = parts.path.lstrip("/")
    if parts.query:
        name += f"?{parts.query}"
    return f"{parts.scheme}://{parts.netloc}", name
