# SPDX-License-Identifier: Apache-2.0
"""Lineage for OpenLineage; imported only if its provider is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_analytics.snapshots.manifest import Manifest


def snapshot_lineage(source: tuple[str, str], target: tuple[str, str] | None, manifest: Manifest | None) -> Any:
    """Return the ``OperatorLineage`` of a snapshot: the list, and the dataset.

    :param source: OpenLineage namespace and name of the list.
    :param target: OpenLineage namespace and name of the dataset, the same every night; None if unknown.
    :param manifest: manifest of the snapshot; None if no snapshot was published.
    """
    from airflow.providers.common.compat.openlineage.facet import (
        InputDataset,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage  # type: ignore[import-not-found,unused-ignore]

    inputs = [InputDataset(*source)]
    if target is None:
        return OperatorLineage(inputs=inputs, outputs=[])
    if manifest is None:
        return OperatorLineage(inputs=inputs, outputs=[OutputDataset(*target)])
    fields = [SchemaDatasetFacetFields(name=column.name, type=column.type) for column in manifest.columns]
    size = sum(file.bytes for file in manifest.files)
    statistics = OutputStatisticsOutputDatasetFacet(rowCount=manifest.count, size=size, fileCount=len(manifest.files))
    dataset = OutputDataset(
        *target,
        facets={"schema": SchemaDatasetFacet(fields=fields)},
        outputFacets={"outputStatistics": statistics},
    )
    return OperatorLineage(inputs=inputs, outputs=[dataset])
