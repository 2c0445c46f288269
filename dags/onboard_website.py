"""Create a website, verify it, and mark it as favorite.

Trigger it manually with a domain. A second run changes nothing: an existing website is left unchanged, and the task
``verify`` fails if its settings differ.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics.
"""

from __future__ import annotations

import os

import pendulum
from airflow.providers.common.compat.sdk import AirflowFailException, Param, dag, task

from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator

#: Pool of the tasks that change websites. If it has one slot, they run one after the other, and each unexpected change
#: in a result was made by someone else: airflow pools set analytics_writers 1 "tasks that change websites"
POOL = os.environ.get("ANALYTICS_POOL", "default_pool")


@dag(
    description="Create a website, verify it, and mark it as favorite",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    default_args={"pool": POOL, "retries": 2, "retry_delay": pendulum.duration(minutes=1)},
    params={
        # Without a default, so that nobody creates a website by a click.
        "domain": Param(
            type="string", minLength=1, title="Domain", description="Domain of the new website, such as www.example.com"
        ),
        "privacy": Param(
            "private", enum=["public", "private"], title="Privacy", description="Who can see the statistics page"
        ),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def onboard_website():
    create = CreateWebsiteOperator(
        task_id="create", domain="{{ params.domain }}", privacy="{{ params.privacy }}", exclude_bots=True
    )
    # With the index, so that it also works in a mapped task group.
    website_id = f"{{{{ ti.xcom_pull('{create.task_id}', map_indexes=ti.map_index)['website_id'] }}}}"

    @task
    def verify(website: dict) -> None:
        differing = ", ".join(website["differing"])  # empty if this run created the website
        if differing:
            raise AirflowFailException(
                f"Website {website['domain']} existed before, and these settings differ: {differing}. "
                "To change them, set if_exists='update' in the task create."
            )

    # With the domain, so that a website that gets the id meanwhile is never changed.
    mark = UpdateWebsiteOperator(
        task_id="mark_as_favorite", website_id=website_id, domain="{{ params.domain }}", favorite=True
    )
    create >> verify(create.output) >> mark


onboard_website()
