"""Compare the websites with ``websites.yaml`` every hour, and send an e-mail if they differ.

The e-mail has the number of websites that differ, the first of them, and a link to the log. It is also sent if the
comparison fails for another reason, such as a rejected key. The DAG changes nothing: for that, use
``websites_as_code.py``.

``SmtpNotifier`` comes with Airflow. You can use any other notifier instead, for example the Slack notifier.

Copy this file and ``websites.yaml`` to your DAG folder. Requires a connection ``analytics_default`` of type Website
Analytics, a connection ``smtp_default`` of type SMTP with the address of the sender (``from_email``), and the Variable
``analytics_notify``, the address of the recipient. Without the Variable, no e-mail is sent.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.common.compat.sdk import Variable, dag
from airflow.providers.smtp.notifications.smtp import SmtpNotifier

from airflow_provider_analytics.operators.websites_as_code import CheckDriftOperator

log = logging.getLogger("notify_on_drift")  # Airflow's own name for this file is hard to read


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


@dag(
    description="Every hour, compare the websites with a file and send an e-mail if they differ",
    schedule="@hourly",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 2,
        "retry_delay": pendulum.duration(minutes=5),
        "execution_timeout": pendulum.duration(hours=2),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def notify_on_drift():
    CheckDriftOperator(
        task_id="check",
        config_path=str(Path(__file__).with_name("websites.yaml")),
        on_failure_callback=notify_by_mail,
    )


notify_on_drift()
