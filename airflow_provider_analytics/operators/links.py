"""Links on the page of a task instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import BaseOperatorLink, XCom

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

#: XCom key of the URL of a snapshot's report.
REPORT_URL_KEY = "report_url"


class SnapshotReportLink(BaseOperatorLink):
    """Link to the report of a snapshot, if it has a URL that a browser can open."""

    name = "Snapshot report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL that the task stored, or an empty string if there is none."""
        # Airflow 3 calls this right after the task, on the operator that ran. A failed task stored nothing, and reading
        # a missing XCom logs an error.
        if hasattr(operator, "report_url"):
            return operator.report_url or ""
        # From XCom, because Airflow 2 calls this in the web server, on an operator that has not run.
        return XCom.get_value(ti_key=ti_key, key=REPORT_URL_KEY) or ""
