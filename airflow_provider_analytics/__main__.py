"""``python -m airflow_provider_analytics COMMAND``."""

from __future__ import annotations

import sys

from airflow_provider_analytics.commands import main

if __name__ == "__main__":
    sys.exit(main())
