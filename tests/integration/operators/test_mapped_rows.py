# SPDX-License-Identifier: Apache-2.0
"""Tasks that are mapped over rows: wrong rows fail alone, without a retry (``operators/websites.py``)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_versions import needs_tracebacks_without_values
from dag_runs import RunDag

from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

# Airflow 2 complains of its own context when it renders a map_index_template.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing .* from the template is deprecated")

#: Arguments of a row, and a part of the error.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"privacy": "privat"}, "privacy='privat' is not allowed"),
    ({"privacy": "private", "password_from": "variable:page_password"}, "password"),
    ({"exclude_ips": ["192.0.2.300"]}, "exclude_ips has unusable entries"),
    ({"privcy": "private"}, "privcy"),
    ({"password": "s3cret-page"}, "password is not an argument"),
]


@needs_tracebacks_without_values
@pytest.mark.parametrize("operator", [CreateWebsiteOperator, UpdateWebsiteOperator])
def test_wrong_row_fails_without_a_retry_and_names_its_website(
    run_dag: RunDag, sandbox: SandboxServer, task_log: Callable[[], str], operator: Any
) -> None:
    domains = [f"{number}.example" for number in range(len(WRONG) + 1)]
    rows = [{"domain": domains[index], **given} for index, (given, _) in enumerate(WRONG)]
    rows.append({"domain": domains[-1], "privacy": "private"})
    if operator is UpdateWebsiteOperator:
        sandbox.add_website(domains[-1])
    with DAG(f"rows_{operator.__name__}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        operator.partial(
            task_id="row", retries=2, retry_delay=timedelta(0), map_index_template="{{ task.domain }}"
        ).expand_kwargs(rows)
    tasks = run_dag(dag).tasks
    log = task_log()
    assert "s3cret-page" not in log
    for index, (_, part) in enumerate(WRONG):
        found = tasks[f"row[{index}]"]
        assert (found.state, found.try_number) == ("failed", 1)
        assert [line for line in log.splitlines() if f"{domains[index]}: " in line and part in line]
    assert tasks[f"row[{len(WRONG)}]"].state == "success"
    assert [website["domain"] for website in sandbox.websites()] == domains[-1:]
