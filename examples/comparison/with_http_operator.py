# SPDX-License-Identifier: Apache-2.0
"""Create a website, exclude an address everywhere, and publish the list, with HttpOperator."""

from __future__ import annotations

import json
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import dag, task
from airflow.providers.http.operators.http import HttpOperator

SERVICE = {
    "http_conn_id": "analytics_http",
    "headers": {"Authorization": "Bearer {{ var.value.analytics_api_key }}"},
}


@dag(schedule="@daily", start_date=pendulum.datetime(2026, 1, 1), catchup=False, default_args={"retries": 1})
def websites_by_http():
    create = HttpOperator(  # if the response is lost, the retry creates a second website
        task_id="create", method="POST", endpoint="api/v1/websites", data={"domain": "shop.example.com"}, **SERVICE
    )
    websites = HttpOperator(  # half of the list also succeeds
        task_id="websites",
        method="GET",
        endpoint="api/v1/websites",
        pagination_function=lambda page: (
            {"data": {"page": page.json()["meta"]["current_page"] + 1}} if page.json()["links"]["next"] else None
        ),
        response_filter=lambda pages: [website for page in pages for website in page.json()["data"]],
        **SERVICE,
    )
    office = HttpOperator.partial(  # drops the addresses that were entered manually
        task_id="office", method="PUT", data={"exclude_ips": "192.0.2.7"}, **SERVICE
    ).expand(endpoint=websites.output.map(lambda website: f"api/v1/websites/{website['id']}"))

    @task
    def publish(websites):  # overwrites yesterday's list, however short this one is
        Path("/data/websites.json").write_text(json.dumps(websites))

    create >> websites >> office >> publish(websites.output)


websites_by_http()
