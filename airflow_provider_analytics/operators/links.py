# SPDX-License-Identifier: Apache-2.0
"""Extra links of tasks in Airflow's web interface. Each is made from the return value of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import BaseOperatorLink, XCom

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator

#: Scheme of storage to the web page of a folder or a file. Other storage has no link: Airflow shows only web pages, and
#: browsers do not open local files from them.
_CONSOLES = {
    "s3": "https://console.aws.amazon.com/s3/buckets/{bucket}?prefix={path}",
    "gs": "https://console.cloud.google.com/storage/browser/{bucket}/{path}",
}
#: Characters of a path that a URL can contain, such as in ``dt=2026-01-02``.
_SAFE = "/="


class SnapshotFolderLink(BaseOperatorLink):
    """Link to the folder of a snapshot."""

    name = "Snapshot folder"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the URL; empty without a result, or if the storage has no web page."""
        return _storage_url(_result(ti_key).get("path"), is_folder=True)


class SnapshotReportLink(BaseOperatorLink):
    """Link to the HTML report of a snapshot."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the URL; empty without a report, or if the storage has no web page."""
        return _storage_url(_result(ti_key).get("report"))


class PlanLink(BaseOperatorLink):
    """Link to the log of the task, which contains the whole plan."""

    name = "Plan"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the URL; empty without a plan."""
        return _result(ti_key).get("plan_url") or ""


class WebsiteLink(BaseOperatorLink):
    """Link to a website. The interface does not document the address of its statistics page."""

    name = "Website"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the URL; empty without a result, or for a domain that is not allowed in a URL."""
        from airflow_provider_analytics.api.domains import check_domain

        try:
            return f"https://{check_domain(_result(ti_key).get('domain'))}"
        except ValueError:
            return ""


def _result(ti_key: Any) -> Mapping[str, Any]:
    """Return the return value of a task; empty if it has none, because it failed."""
    found = XCom.get_value(ti_key=ti_key, key="return_value")
    if isinstance(found, Mapping):
        return found
    return {}


def _storage_url(place: object, *, is_folder: bool = False) -> str:
    """Return a URL for a browser; empty if the storage has no web page."""
    if not isinstance(place, str) or not place:
        return ""
    if is_folder:
        place = f"{place.rstrip('/')}/"
    scheme, _, rest = place.partition("://")
    bucket, _, path = rest.partition("/")
    if scheme not in _CONSOLES:
        return ""
    return _CONSOLES[scheme].format(bucket=quote(bucket), path=quote(path, safe=_SAFE))
