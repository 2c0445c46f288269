"""Addresses of the assets: ``analytics://<connection id>/<dataset>``, with the filters of the list as query.

Airflow finds the functions by the provider metadata: it validates addresses of this scheme, and hands them to
OpenLineage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.common.compat.sdk import Asset

SCHEME = "analytics"


def asset_uri(conn_id: str, dataset: str, *, search: str | None = None, favorite: bool | None = None) -> str:
    """Return the address of the asset for a list of websites."""
    filters = {"favorite": None if favorite is None else str(favorite).lower(), "search": search or None}
    query = urlencode({name: value for name, value in filters.items() if value is not None})
    return f"{SCHEME}://{quote(conn_id, safe='')}/{quote(dataset, safe='')}{'?' if query else ''}{query}"


def partitioned_uri(uri: str) -> str:
    """Return the address of the asset that has an event per day of the snapshots of the list at an address."""
    parts = urlsplit(uri)
    return parts._replace(query=urlencode([*parse_qsl(parts.query), ("partitioned", "true")])).geturl()


def is_partitioned(uri: str) -> bool:
    """Return whether an address is one of :func:`partitioned_uri`."""
    return ("partitioned", "true") in parse_qsl(urlsplit(uri).query)


def can_partition() -> bool:
    """Return whether a task of this Airflow can give an event the key of a partition."""
    try:
        from airflow.sdk.execution_time.context import OutletEventAccessor
    except ImportError:  # Airflow 2
        return False
    return hasattr(OutletEventAccessor, "add_partitions")


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the address unchanged if it names a connection and a dataset.

    :raises ValueError: if it does not.
    """
    dataset = uri.path.strip("/")
    if not uri.netloc or not dataset or "/" in dataset:
        raise ValueError(f"uri={uri.geturl()!r} is not allowed; allowed: analytics://<connection id>/<dataset>")
    return uri


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:  # noqa: ARG001 - given by OpenLineage
    """Return the dataset that OpenLineage knows an asset by."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    return Dataset(*openlineage_name(asset.uri))


def openlineage_name(uri: str) -> tuple[str, str]:
    """Return the OpenLineage namespace and name of an asset, file or folder."""
    parts = urlsplit(uri)
    if parts.scheme in {"", "file"}:
        return "file", parts.path
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}", f"{parts.path.lstrip('/')}{query}"
