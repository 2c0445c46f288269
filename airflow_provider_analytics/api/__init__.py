"""The wire protocol of the service: fields, requests, answers, and the proof that a list is complete.

Never imports Airflow, and nothing of this package but ``exceptions``. Only ``transport.py`` imports requests.
"""

from __future__ import annotations
