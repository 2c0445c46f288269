"""Every Monday, send an e-mail with the excluded IP addresses that expire within 30 days, or have expired.

It reads the list of ``sync_excluded_ips.py``: the Airflow Variable ``exclude_ips``, in which a comment has the owner
and the expiration date of an address::

    203.0.113.7  # office Berlin, owner=it@example.com, until=2027-01-31

This DAG changes no website. To remove expired addresses, use ``sync_excluded_ips.py`` with the same folder.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics, a connection
``smtp_default`` of type SMTP with the address of the sender (``from_email``), and the Variable
``analytics_notify``, the address of the recipient.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.common.compat.sdk import dag, task
from airflow.providers.smtp.operators.smtp import EmailOperator

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator

#: Folder of lists, plans, and audit trails: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)


@dag(
    description="Every Monday, send an e-mail with the excluded IP addresses that expire soon",
    schedule="0 6 * * 1",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def remind_of_expiring_entries():
    plan = SyncExcludedIpsOperator(
        task_id="plan",
        exclude_ips="{{ var.value.get('exclude_ips', '') }}",
        state_path=FOLDER,
        list_name="sync_excluded_ips.sync",
        dry_run=True,
    )

    @task.short_circuit
    def remind(result: dict[str, Any]) -> list[str]:
        """Return the lines of the e-mail, the subject first; an empty list skips the e-mail."""

        def line(item: dict[str, str]) -> str:
            return ", ".join(item[name] for name in ("entry", "until", "owner", "reason") if name in item)

        expired, expiring = (list(map(line, result[name])) for name in ("expired", "expiring"))
        subject = f"Excluded IP addresses: {len(expiring)} expire within 30 days, {len(expired)} have expired"
        text = [*(["Expire soon:", *expiring] if expiring else []), *(["Have expired:", *expired] if expired else [])]
        return [subject, *text] if text else []

    lines = remind(plan.output)
    # With the index, so that it also works in a mapped task group.
    pulled = f"ti.xcom_pull('{lines.operator.task_id}', map_indexes=ti.map_index)"
    mail = EmailOperator(
        task_id="mail",
        conn_id="smtp_default",
        to="{{ var.value.analytics_notify }}",
        subject=f"{{{{ {pulled}[0] }}}}",
        html_content=f"<pre>{{{{ {pulled}[1:] | join('\\n') | e }}}}</pre>",
    )
    lines >> mail


remind_of_expiring_entries()
