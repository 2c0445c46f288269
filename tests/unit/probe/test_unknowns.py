"""The table of unknowns is complete, and each row is held by a sandbox, a probe and a test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from airflow_provider_analytics.hooks.connection import EXTRAS
from airflow_provider_analytics.probe.findings import ASKED
from airflow_provider_analytics.probe.unknowns import BY_NAME, PROMISES, UNKNOWNS, Unknown
from airflow_provider_analytics.sandbox.options import Options

CHECKOUT = Path(__file__).parents[3]
#: Options that model faults of a well-known server, or that no reader needs to ask for: no question of the table.
NO_QUESTION = {
    "metadata", "total_offset", "create_status", "update_status", "delete_status", "ignored_fields",
    "strict_parameters", "required_headers",
}  # fmt: skip

EVERY_ROW = pytest.mark.parametrize("row", UNKNOWNS, ids=lambda row: row.name)


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(UNKNOWNS)


def test_each_option_of_the_sandbox_belongs_to_a_question() -> None:
    played = {name for row in UNKNOWNS for value in row.values for name in value.options}
    assert played | NO_QUESTION == set(Options.model_fields)


@EVERY_ROW
class TestEachRow:
    def test_it_assumes_one_value_which_the_sandbox_plays_by_default(self, row: Unknown) -> None:
        assert len(row.assumed) == 1
        assert not row.value(row.assumed[0]).options

    def test_an_option_of_the_sandbox_plays_each_other_value(self, row: Unknown) -> None:
        default = Options()
        played = [default.changed(value.options) for value in row.values]
        assert len(set(map(repr, played))) == len(row.values) > 1

    def test_it_has_a_probe_or_says_that_reads_cannot_tell(self, row: Unknown) -> None:
        assert (row.name in ASKED) == bool(row.asked)

    def test_a_test_shows_how_a_running_task_notices(self, row: Unknown) -> None:
        path, _, name = row.noticed_by.partition("::")
        tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    def test_its_extra_is_one_and_is_set_where_a_value_needs_it(self, row: Unknown) -> None:
        assert not row.extra or row.extra in EXTRAS
        if any(value.effect == "extra" for value in row.values):
            assert row.extra

    def test_what_does_not_work_says_what_that_means(self, row: Unknown) -> None:
        for value in row.values:
            assert value.meaning or value.effect in ("assumed", "handled"), value.name

    def test_its_promises_are_promises_and_have_a_condition(self, row: Unknown) -> None:
        assert set(row.promises) <= set(PROMISES)
        assert bool(row.promises) == bool(row.needs)
