# SPDX-License-Identifier: Apache-2.0
"""Lineage for OpenLineage; imported only if its provider is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_analytics.snapshots.manifest import Manifest

#: Assertion to its description.
_MEANINGS = {
    "same_source": "service, account and filters are those of the last snapshot",
    "complete": "the list is proven complete",
    "not_shrunk": "the list is not much shorter than the last snapshot",
}


def snapshot_lineage(
    source: tuple[str, str], target: tuple[str, str] | None, assertions: Mapping[str, bool], manifest: Manifest | None
) -> Any:
    """Return the ``OperatorLineage`` of a snapshot: the list with its assertions, and the dataset.

    :param source: OpenLineage namespace and name of the list.
    :param target: OpenLineage namespace and name of the dataset, the same every night; None if unknown.
    :param assertions: assertion to whether it is true.
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
    from openlineage.client.generated.data_quality_assertions_dataset import (
        Assertion,
        DataQualityAssertionsDatasetFacet,
    )

    found = [
        Assertion(assertion=name, success=held, severity="error", name=name, description=_MEANINGS[name])
        for name, held in assertions.items()
    ]
    checked: dict[str, Any] = (
        {"dataQualityAssertions": DataQualityAssertionsDatasetFacet(assertions=found)} if found else {}
    )
    outputs = []
    if target and manifest:
        fields = [SchemaDatasetFacetFields(name=column.name, type=column.type) for column in manifest.columns]
        statistics = OutputStatisticsOutputDatasetFacet(
            rowCount=manifest.count, size=sum(file.bytes for file in manifest.files), fileCount=len(manifest.files)
        )
        outputs = [
            OutputDataset(
                *target,
                facets={"schema": SchemaDatasetFacet(fields=fields)},
                outputFacets={"outputStatistics": statistics},
            )
        ]
    elif target:
        outputs = [OutputDataset(*target)]
    return OperatorLineage(inputs=[InputDataset(*source, inputFacets=checked)], outputs=outputs)
