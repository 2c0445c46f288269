# SPDX-License-Identifier: Apache-2.0
"""``python -m airflow_provider_analytics COMMAND``, the same as the console script."""

from __future__ import annotations

import sys

from airflow_provider_analytics.commands import main

if __name__ == "__main__":
    sys.exit(main())
