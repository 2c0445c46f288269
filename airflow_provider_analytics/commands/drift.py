"""Compare the websites with files; send nothing. The status and the output are those of ``plan``."""

from __future__ import annotations

from airflow_provider_analytics.commands.plan import add_arguments as add_arguments
from airflow_provider_analytics.commands.plan import run as run
