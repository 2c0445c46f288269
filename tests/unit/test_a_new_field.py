"""The experiment behind ``test_fields_are_everywhere.py``: a field is added to the table, and nowhere else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TABLE = "WEBSITE_FIELDS = (\n"
ROW = '    Field("timezone", "time zone of the statistics"),\n'

#: Each place that a new field has to be added to, by the test that names it.
PLACES = {
    "test_the_hook_takes_and_sends_it_on_create[timezone]",
    "test_the_hook_takes_and_sends_it_on_update[timezone]",
    "test_the_hook_documents_it[timezone]",
    "test_type_checkers_know_it[timezone]",
    "test_the_create_operator_takes_and_sends_it[timezone]",
    "test_the_update_operator_takes_and_sends_it[timezone]",
    "test_the_schema_of_a_file_of_websites_has_it[timezone]",
    "test_the_sandbox_takes_it[timezone]",
    "test_the_sandbox_shows_it[timezone]",
    "test_the_interface_page_states_it[timezone]",
    "test_sql_names_it[CREATE_TABLE_websites-timezone]",
    "test_sql_names_it[the_columns_of_LOAD-timezone]",
    "test_sql_names_it[row(...)_AS_settings_in_website_history-timezone]",
    "test_sql_names_it[the_last_SELECT_of_website_history-timezone]",
    "test_sql_names_it[CREATE_TABLE_of_PostgreSQL-timezone]",
    "test_sql_names_it[the_columns_of_copy,_in_the_order_of_the_file-timezone]",
    "test_a_table_of_an_earlier_version_gets_the_column[timezone]",
    "test_the_report_of_a_snapshot_shows_it[timezone]",
    "test_the_websites_of_a_sandbox_differ_in_it[timezone]",
    "test_the_worlds_of_the_oracle_have_it[timezone]",
    "test_what_is_generated_is_up_to_date",
}


@pytest.mark.repository
@pytest.mark.slow
@pytest.mark.chosen
def test_a_field_that_is_added_to_the_table_only_fails_a_test_for_each_place_that_lacks_it(tmp_path: Path) -> None:
    for folder in ("airflow_provider_analytics", "dags", "docs", "scripts", "tests"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "images"))
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(CHECKOUT / file, tmp_path / file)
    table = tmp_path / "airflow_provider_analytics" / "api" / "fields.py"
    text = table.read_text()
    assert TABLE in text
    table.write_text(text.replace(TABLE, TABLE + ROW))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/unit/test_fields_are_everywhere.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = set(re.findall(r"^FAILED tests/unit/test_fields_are_everywhere\.py::(\S+)", done.stdout, re.MULTILINE))
    # One that breaks for the new field may break for the others as well.
    assert failed >= PLACES, done.stdout[-3000:]
