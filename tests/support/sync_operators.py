# SPDX-License-Identifier: Apache-2.0
"""Exclusion list, and operation on a website, to its operator."""

from __future__ import annotations

from typing import Any

from airflow_provider_analytics.api.fields import OPERATIONS
from airflow_provider_analytics.operators import exclusions, websites

SYNC_OPERATORS: dict[str, type[Any]] = {
    found.field: found for name, found in vars(exclusions).items() if name.startswith("SyncExcluded")
}
WEBSITE_OPERATORS: dict[str, type[Any]] = {
    name: getattr(websites, operation.operator) for name, operation in OPERATIONS.items() if "{id}" in operation.path
}
