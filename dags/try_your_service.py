"""Try your service with one new website: create it, change it, take a snapshot, and delete it.

Trigger it manually with a domain that no website has. It writes to no other website. The log of ``report`` has a line
for each step, and the task fails if a step did not do what was expected. At the end, the website is deleted, even if a
step failed, but only if this run created it: if the website exists, ``create`` fails, and if it does not look new,
``check_new`` fails. Then nothing is changed. If one of the two fails for another reason, such as a lost response, look
for the website and delete it yourself.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import AirflowFailException, Param, chain, dag, task

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    UpdateWebsiteOperator,
)

#: Folder of the snapshot: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)
#: Pool of the tasks that change websites. If it has one slot, they run one after the other, and each unexpected change
#: in a result was made by someone else: airflow pools set analytics_writers 1 "tasks that change websites"
POOL = os.environ.get("ANALYTICS_POOL", "default_pool")
DOMAIN = "{{ params.domain }}"
#: A list with a comment, and a list of more than 255 characters: some services store neither in full.
IPS = [{"entry": "192.0.2.1", "comment": "trial"}, "2001:db8::1"]
PARAMS = [f"trial_parameter_{number}" for number in range(1, 21)]
#: Values that a new website does not have. Each update must keep those of the updates before it.
UPDATES = {"favorite": True, "privacy": "private", "email_reports": True, "exclude_bots": False}
#: Task to a key of its result, and the expected value: each step works, and nothing is done twice.
EXPECTED = {
    "create": ("created", True),
    "create_again": ("created", False),
    "sync_ips": ("applied", 1),
    "sync_params": ("applied", 1),
    **{f"update_{name}": ("verified", True) for name in UPDATES},
    "sync_ips_again": ("applied", 0),
    "sync_params_again": ("applied", 0),
}


@dag(
    description="Try your service with one new website: create, change, and delete it",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    max_active_runs=1,
    default_args={"pool": POOL, "retries": 2, "retry_delay": pendulum.duration(minutes=1)},
    params={
        # Without a default, so that nobody creates a website by a click.
        "domain": Param(
            type="string",
            minLength=1,
            title="Domain",
            description="A domain that no website has, for example analytics-trial.example.invalid",
        ),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def try_your_service():
    @task(retries=0, multiple_outputs=True)
    def check_new(created):
        # The result is missing if someone marked the task as success.
        if not created or not created["created"]:
            raise AirflowFailException("This run did not create a website, so it changes none.")
        website_id, website = created["website_id"], created["website"]
        problems = [*created["unexpected_changes"], *(f"{name} is not returned" for name in created["unverified"])]
        problems += [f"{name} is set" for name in ("exclude_ips", "exclude_params", "favorite") if website.get(name)]
        if problems:
            raise AirflowFailException(
                f"Website {website_id} does not look new: {', '.join(problems)}. It might have existed before, so this "
                "run neither changes nor deletes it."
            )
        return {"website_id": website_id, "domain": website["domain"]}

    def sync(suffix=""):
        # By the domain that the create returned: the service could give the id to another website.
        chosen = {"websites": [new["domain"]], "mode": "merge"}
        return [
            SyncExcludedIpsOperator(task_id=f"sync_ips{suffix}", exclude_ips=IPS, **chosen),
            SyncExcludedParamsOperator(task_id=f"sync_params{suffix}", exclude_params=PARAMS, **chosen),
        ]

    create = CreateWebsiteOperator(task_id="create", domain=DOMAIN, if_exists="fail").as_setup()
    new = check_new(create.output)
    create_again = CreateWebsiteOperator(task_id="create_again", domain=DOMAIN)
    updates = [
        UpdateWebsiteOperator(task_id=f"update_{name}", website_id=new["website_id"], domain=DOMAIN, **{name: value})
        for name, value in UPDATES.items()
    ]
    snapshot = SnapshotWebsitesOperator(
        task_id="snapshot",
        base_path=FOLDER,
        snapshot_name="trial",
        # The last trial might be long ago, on another service.
        override_guards=["fewer_websites", "other_source", "missing_fields"],
    )

    @task(retries=0)
    def report(results):
        problems = []
        for step, (key, expected) in EXPECTED.items():
            found = results[step][key]
            print(f"{step}: {key} is {found}")
            if found != expected:
                problems.append(f"{step}: {key} is {found}, but {expected} was expected. Read the log of {step}.")
        if problems:
            raise AirflowFailException("\n".join(problems))

    steps = [create_again, *sync(), *updates, *sync("_again")]
    results = dict(zip(EXPECTED, [create.output, *(step.output for step in steps)], strict=True))
    delete = DeleteWebsiteOperator(task_id="delete", website_id=new["website_id"], domain=DOMAIN)
    # Side by side, so that each of the two can fail the run.
    deleted = delete.as_teardown(setups=create, on_failure_fail_dagrun=True)
    chain(create, new, *steps, snapshot, [report(results), deleted])


try_your_service()
