"""Links that Airflow shows on a task instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import BaseOperatorLink, XCom

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

#: XCom key under which a snapshot keeps the address of its report.
REPORT_URL_KEY = "report_url"


class SnapshotReportLink(BaseOperatorLink):
    """Opens the report of a snapshot, where its storage has an address that a browser can open."""

    name = "Snapshot report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address that the task stored, or no text where there is none."""
        # Airflow 2 calls this in the web server, with an operator that has never run: only XCom knows.
        return XCom.get_value(ti_key=ti_key, key=REPORT_URL_KEY) or ""
