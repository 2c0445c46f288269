# SPDX-License-Identifier: Apache-2.0
"""Changes of the connection that tests use."""

from __future__ import annotations

import json
import os


def with_parallel_requests(number: int | None) -> str:
    """Return the default connection as JSON text, with this number of parallel requests if it is given."""
    connection = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])
    if number is not None:
        connection["extra"] = {**(connection.get("extra") or {}), "parallel_requests": number}
    return json.dumps(connection)
