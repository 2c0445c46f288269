# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

__version__ = "1.0.0rc1"

#: Start of the pages of the documentation, to which errors and docstrings link.
SITE = "https://airflow-provider-analytics.github.io/airflow-provider-analytics/"
