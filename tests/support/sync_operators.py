# SPDX-License-Identifier: Apache-2.0
"""Exclusion list to its operator."""

from __future__ import annotations

from typing import Any

from airflow_provider_analytics.operators import exclusions

SYNC_OPERATORS: dict[str, type[Any]] = {
    found.field: found for name, found in vars(exclusions).items() if name.startswith("SyncExcluded")
}
