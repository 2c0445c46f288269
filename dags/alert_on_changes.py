"""After each snapshot, send an e-mail if pages became public, websites are missing, or new ones exist.

The Params switch each kind of alert; edit their defaults to switch it for all runs. A new website whose page is public
counts as both. The e-mail lists the domains. The task ``check`` fails, so that the alert is also visible in Airflow.
Several snapshots of one day repeat the alert: each is compared with the day before. A manual run checks the newest
snapshot. To see an alert without a snapshot of an earlier day, set ``test_alert``: all websites then count as new.

Copy this file to the folder of ``nightly_website_snapshot.py``. It runs after each snapshot of that DAG. Requires a
connection ``smtp_default`` of type SMTP with the address of the sender (``from_email``), and the Variable
``analytics_notify``, the address of the recipient. Without the Variable, no e-mail is sent. For Slack, set
``SLACK_CONN_ID`` to a connection of type Slack Incoming Webhook, and ``pip install apache-airflow-providers-slack``.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.common.compat.sdk import AirflowFailException, ObjectStoragePath, Param, Variable, dag, task
from airflow.providers.smtp.notifications.smtp import SmtpNotifier

from airflow_provider_analytics.operators.snapshots import snapshot_asset

#: Folder of the snapshots: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)
#: Connection of the object storage, if it needs one.
STORAGE_CONN_ID = None
#: Connection to Slack, such as "slack_default".
SLACK_CONN_ID = None


log = logging.getLogger("alert_on_changes")  # Airflow's own name for this file is hard to read


def notify_by_mail(context: Any) -> None:
    if Variable.get("analytics_notify", None) is None:
        log.warning("No e-mail was sent, because the Variable analytics_notify is missing.")
        return
    notifier = SmtpNotifier(
        to="{{ var.value.analytics_notify }}",
        subject="{{ (exception | string).splitlines()[0] | truncate(150) }}",
        html_content="<pre>{{ exception | string | e }}</pre>"
        '<p>The details are in <a href="{{ ti.log_url }}">the log</a>.</p>',
    )
    notifier(context)


def notify_by_slack(context: Any) -> None:
    if SLACK_CONN_ID is None:
        return
    from airflow.providers.slack.notifications.slack_webhook import SlackWebhookNotifier

    notifier = SlackWebhookNotifier(
        slack_webhook_conn_id=SLACK_CONN_ID,
        # Escaped, because a domain such as <!channel> would notify everybody.
        text="{{ exception | string | replace('&', '&amp;') | replace('<', '&lt;') | replace('>', '&gt;') }}",
    )
    notifier(context)


def switch(title: str, description: str, *, default: bool = True) -> Param:
    return Param(default, type="boolean", title=title, description=description)


@dag(
    description="After each snapshot, send an e-mail about public pages, removed websites, and new ones",
    schedule=[snapshot_asset()],
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=1)},
    params={
        "public_pages": switch("Public pages", "Alert if a statistics page became public"),
        "removed_websites": switch("Removed websites", "Alert if websites of the snapshot before are missing"),
        "new_websites": switch("New websites", "Alert if there are websites that the snapshot before does not have"),
        "test_alert": switch(
            "Test alert", "Compare the newest snapshot with an empty list, to see an alert", default=False
        ),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def alert_on_changes() -> None:
    @task(on_failure_callback=[notify_by_mail, notify_by_slack])  # Airflow calls each, even if one fails
    def check(params: Any = None, **context: Any) -> None:
        from airflow_provider_analytics.readable import counted, first_of, readable
        from airflow_provider_analytics.snapshots.catalog import newest_snapshot, read_snapshot
        from airflow_provider_analytics.snapshots.diff import diff
        from airflow_provider_analytics.storage import StoragePath

        # Airflow 2 calls assets datasets.
        events = context.get("triggering_asset_events") or context.get("triggering_dataset_events") or {}
        # Use only the day of an event: anyone who can send one could otherwise choose the files that are read.
        days = {event.extra.get("snapshot_date") for found in events.values() for event in found} - {None}
        base = StoragePath.of(ObjectStoragePath(FOLDER, conn_id=STORAGE_CONN_ID))
        snapshots = [read_snapshot(base, day) for day in sorted(days)] if days else [newest_snapshot(base)]
        if not any(snapshots):
            log.info("There is no snapshot to check.")
        public, removed, new = [], [], []
        for snapshot in filter(None, snapshots):
            changes = snapshot.changes()
            if params["test_alert"]:
                changes = diff([], snapshot.rows())
            elif snapshot.manifest.previous is None:
                log.info("The snapshot of %s is not compared: no earlier one.", snapshot.manifest.snapshot_date)
            for change in changes:
                website = readable(change["domain"] or f"website {change['id']}")
                privacy = change["fields"].get("privacy")
                if change["change"] == "removed":
                    removed.append(website)
                elif privacy and privacy["after"] == "public":
                    public.append(website)
                if change["change"] == "added":
                    new.append(website)
        alerts = []
        if public and params["public_pages"]:
            alerts.append((f"{counted(len(public), 'statistics page')} became public", public))
        if removed and params["removed_websites"]:
            alerts.append((f"{counted(len(removed), 'website')} removed", removed))
        if new and params["new_websites"]:
            alerts.append((counted(len(new), "new website"), new))
        if alerts:
            subject = "; ".join(f"{what}: {first_of(websites, 3)}" for what, websites in alerts)
            lists = ["\n".join([f"{what}:", *websites]) for what, websites in alerts]
            raise AirflowFailException("\n\n".join([subject, *lists]))

    check()


alert_on_changes()
