"""A DAG whose retry policy chooses the delay by the error. Needs Airflow 3.3 or newer."""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryDecision, RetryRule, dag

from airflow_provider_analytics.exceptions import AmbiguousWriteError, IncompleteListError
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator


class AnalyticsRetryPolicy(ExceptionRetryPolicy):
    """Wait as long as the service asks for; otherwise, follow the rules."""

    def evaluate(self, exception, try_number, max_tries, context=None):
        seconds = getattr(exception, "retry_after", None)
        if seconds:
            return RetryDecision.retry(timedelta(seconds=seconds), reason=f"The service asks to wait {seconds:.0f} s")
        return super().evaluate(exception, try_number, max_tries, context)


POLICY = AnalyticsRetryPolicy(
    rules=[
        RetryRule(IncompleteListError, RetryAction.RETRY, retry_delay=timedelta(minutes=30)),
        RetryRule(AmbiguousWriteError, RetryAction.RETRY, retry_delay=timedelta(minutes=1)),
    ]
)


@dag(schedule="@daily", start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), catchup=False)
def snapshot_with_retry_policy():
    SnapshotWebsitesOperator(task_id="snapshot", base_path="s3://my-bucket/analytics", retries=5, retry_policy=POLICY)


snapshot_with_retry_policy()
