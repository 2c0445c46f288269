"""Which consumers a snapshot starts: each pair of producer and consumer, run by a real scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import partition_cells
import pytest
from airflow_versions import needs_partitions

TODAY = datetime.now(UTC).date().isoformat()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[tuple[str, str], list[str | None]]]:
    with partition_cells.scheduled(tmp_path_factory.mktemp("airflow")) as airflow:
        yield partition_cells.cells(airflow)


@needs_partitions
@pytest.mark.parametrize(
    ("producer", "consumer", "keys"),
    [
        ("cron", "plain", [None]),
        ("cron", "partitioned", [TODAY]),
        # Airflow gives each event of a partitioned run the key of the run, and such an event starts no plain consumer.
        ("cron_partition", "plain", []),
        ("cron_partition", "triggered", [None]),
        ("cron_partition", "partitioned", [TODAY]),
    ],
)
def test_a_snapshot_starts_its_consumer(
    found: Mapping[tuple[str, str], list[str | None]], producer: str, consumer: str, keys: list[str | None]
) -> None:
    assert found[producer, consumer] == keys


@needs_partitions
def test_the_page_has_what_runs(found: dict[tuple[str, str], list[str | None]]) -> None:
    assert "\n".join(partition_cells.table(found)) in partition_cells.PAGE.read_text()
