"""After each snapshot, send an e-mail if a statistics page became public. The e-mail lists the domains.

A new website whose page is public counts too. The task ``check`` fails, so that the alert is also visible in Airflow.
Several snapshots of one day repeat the alert: each is compared with the day before. A manual run checks the newest
snapshot.

Copy this file to the folder of ``nightly_website_snapshot.py``. It runs after each snapshot of that DAG. Requires a
connection ``smtp_default`` of type SMTP with the address of the sender (``from_email``), and the Variable
``analytics_notify``, the address of the recipient. For Slack, set ``SLACK_CONN_ID`` to a connection of type
Slack Incoming Webhook, and ``pip install apache-airflow-providers-slack``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.common.compat.sdk import AirflowFailException, ObjectStoragePath, dag, task
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


def notifiers() -> list[Any]:
    mail = SmtpNotifier(
        to="{{ var.value.analytics_notify }}",
        subject="{{ (exception | string).splitlines()[0] | truncate(150) }}",
        html_content="<pre>{{ exception | string | e }}</pre>"
        '<p>The details are in <a href="{{ ti.log_url }}">the log</a>.</p>',
    )
    if SLACK_CONN_ID is None:
        return [mail]
    from airflow.providers.slack.notifications.slack_webhook import SlackWebhookNotifier

    slack = SlackWebhookNotifier(
        slack_webhook_conn_id=SLACK_CONN_ID,
        # Escaped, because a domain such as <!channel> would notify everybody.
        text="{{ exception | string | replace('&', '&amp;') | replace('<', '&lt;') | replace('>', '&gt;') }}",
    )
    return [mail, slack]


@dag(
    description="After each snapshot, send an e-mail if a statistics page became public",
    schedule=[snapshot_asset()],
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=1)},
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def alert_on_public_pages() -> None:
    @task(on_failure_callback=notifiers())
    def check(**context: Any) -> None:
        from airflow_provider_analytics.readable import readable
        from airflow_provider_analytics.snapshots.catalog import newest_snapshot, read_snapshot
        from airflow_provider_analytics.storage import StoragePath

        # Airflow 2 calls assets datasets.
        events = context.get("triggering_asset_events") or context.get("triggering_dataset_events") or {}
        # Use only the day of an event: anyone who can send one could otherwise choose the files that are read.
        days = {event.extra.get("snapshot_date") for found in events.values() for event in found} - {None}
        base = StoragePath.of(ObjectStoragePath(FOLDER, conn_id=STORAGE_CONN_ID))
        snapshots = [read_snapshot(base, day) for day in sorted(days)] if days else [newest_snapshot(base)]
        public = []
        for snapshot in filter(None, snapshots):
            for change in snapshot.changes():
                privacy = change["fields"].get("privacy")
                if change["change"] != "removed" and privacy and privacy["after"] == "public":
                    public.append(readable(change["domain"] or f"website {change['id']}"))
        if public:
            pages = "statistics page" if len(public) == 1 else "statistics pages"
            first = ", ".join(public[:3]) + (", ..." if len(public) > 3 else "")
            raise AirflowFailException("\n".join([f"{len(public)} {pages} became public: {first}", *public]))

    check()


alert_on_public_pages()
