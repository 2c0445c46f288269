# SPDX-License-Identifier: Apache-2.0
"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import pendulum
from airflow.providers.common.compat.sdk import Param, dag, task
from airflow.providers.http.operators.http import HttpOperator


@dag(
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=1)},
    params={
        "domain": Param("www.example.com", type="string", description="Domain, such as www.example.com"),
        "privacy": Param("private", enum=["public", "private"], description="Who sees the statistics page"),
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def onboard_website():
    website_id = "{{ ti.xcom_pull(task_ids='create')['id'] }}"
    create = HttpOperator(
        task_id="create",
        method="POST",
        endpoint="api/v1/websites",
        data={"domain": "{{ params.domain }}", "privacy": "{{ params.privacy }}", "exclude_bots": "1"},
        response_filter=lambda response: response.json()["data"],
    )

    @task
    def verify(website: dict, params: dict | None = None) -> None:
        if website["privacy"] != params["privacy"]:
            raise ValueError(f"{website['domain']} is {website['privacy']}")

    mark = HttpOperator(
        task_id="mark_as_favorite", method="PUT", endpoint=f"api/v1/websites/{website_id}", data={"favorite": "1"}
    )
    create >> verify(create.output) >> mark


onboard_website()
