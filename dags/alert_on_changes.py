"""After each snapshot, send an e-mail if pages became public, websites are missing, or new ones exist.

The Params switch each kind of alert; edit their defaults to switch it for all runs. A new website whose page is public
counts as both. With ``removed_allowed``, an alert needs more removed websites than this number. The e-mail lists the
domains. The task ``check`` fails, so that the alert is also visible in Airflow.
Several snapshots of one day repeat the alert: each is compared with the day before. A manual run checks the newest
snapshot. To see an alert without a snapshot of an earlier day, set ``test_alert``: all websites then count as new.

The task also fails if ``FOLDER`` has no snapshot, or if the snapshot of the event is in another folder: then ``FOLDER``
is not the ``base_path`` of the snapshot DAG, and no change would be noticed.

Copy this file to the folder of ``nightly_website_snapshot.py``. It runs after each snapshot of that DAG. Requires a
connection ``smtp_default`` of type SMTP with the address of the sender (``from_email``), and the Variable
``analytics_notify``, the address of the recipient. Without the Variable, no e-mail is sent. For Slack, set
``SLACK_CONN_ID`` to a connection of type Slack Incoming Webhook, and ``pip install apache-airflow-providers-slack``.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
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


#: Param to the title of its alert.
TITLES = {
    "public_pages": "Pages that became public",
    "removed_websites": "Removed websites",
    "new_websites": "New websites",
}

log = logging.getLogger("alert_on_changes")  # Airflow's own name for this file is hard to read


def snapshots_to_check(context: Any) -> list[Any]:
    """Return the snapshots of the events that started the run; in a manual run, the newest one."""
    from airflow_provider_analytics.snapshots.catalog import newest_snapshot, read_snapshot

    # Airflow 2 calls assets datasets.
    events = context.get("triggering_asset_events") or context.get("triggering_dataset_events") or {}
    base = ObjectStoragePath(FOLDER, conn_id=STORAGE_CONN_ID)
    snapshots = {}
    for event in [event for found in events.values() for event in found]:
        day, path = event.extra.get("snapshot_date"), event.extra.get("path")
        if day is None:
            continue  # a person created the event
        # Files are read from FOLDER only: anyone who can send an event could otherwise choose them.
        expected = f"{FOLDER.rstrip('/')}/websites/dt={day}"
        if path is not None and place_of(path) != place_of(expected):
            raise AirflowFailException(
                f"The snapshot of the event is {path}, but this DAG checks {expected}. Set FOLDER in "
                "alert_on_changes.py to the base_path of the snapshot DAG"
            )
        snapshots[day] = read_snapshot(base, day)
        if snapshots[day] is None:
            raise AirflowFailException(f"{FOLDER} has no snapshot of {day}. Check FOLDER in alert_on_changes.py")
    if not snapshots:
        newest = newest_snapshot(base)
        if newest is None:
            raise AirflowFailException(f"{FOLDER} has no snapshot. Check FOLDER in alert_on_changes.py")
        snapshots[""] = newest
    return [snapshots[day] for day in sorted(snapshots)]


def place_of(url: str) -> str:
    """Return a URL or path without a connection id, and without the scheme of local files."""
    return re.sub(r"^(\w+://)[^/@]*@", r"\1", url).removeprefix("file://")


def all_as_new(snapshot: Any) -> Iterator[dict[str, Any]]:
    """Yield each website of a snapshot as a change: a new website."""
    for row in snapshot.rows():
        privacy = {"after": "public" if row["privacy"] == 0 else "protected"}
        yield {"change": "added", "id": row["id"], "domain": row["domain"], "fields": {"privacy": privacy}}


def find_alerts(changes: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the Param of each alert with the website. A new website whose page is public has two alerts."""
    for change in changes:
        website = repr(change["domain"] or change["id"])  # with escapes: a domain could contain a line break
        privacy = change["fields"].get("privacy")
        if change["change"] == "removed":
            yield "removed_websites", website
        elif privacy and privacy["after"] == "public":
            yield "public_pages", website
        if change["change"] == "added":
            yield "new_websites", website


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
        "removed_websites": switch("Removed websites", "Alert if websites of the previous snapshot are missing"),
        "removed_allowed": Param(
            0,
            type="integer",
            minimum=0,
            title="Removed websites allowed",
            description="Alert only if more than this number of websites were removed",
        ),
        "new_websites": switch("New websites", "Alert if there are websites that are not in the previous snapshot"),
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
        alerts: dict[str, list[str]] = {name: [] for name in TITLES if params[name]}
        for snapshot in snapshots_to_check(context):
            changes = snapshot.changes()
            if params["test_alert"]:
                changes = all_as_new(snapshot)
            for name, website in find_alerts(changes):
                if name in alerts:
                    alerts[name].append(website)
        if len(alerts.get("removed_websites", ())) <= params["removed_allowed"]:
            alerts.pop("removed_websites", None)
        subjects, lists = [], []
        for name, websites in alerts.items():
            if websites:
                more = f" and {len(websites) - 3} more" if len(websites) > 3 else ""
                subjects.append(f"{TITLES[name]}: {', '.join(websites[:3])}{more}")
                lists.append("\n".join([f"{TITLES[name]} ({len(websites)}):", *websites]))
        if subjects:
            raise AirflowFailException("\n\n".join(["; ".join(subjects), *lists]))

    check()


alert_on_changes()
