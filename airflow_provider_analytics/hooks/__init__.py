"""Airflow connections turned into what talks to the service and to object storage.

May import Airflow, ``api`` and ``storage``; nothing of ``reconcile``, ``snapshots`` or ``operators``.
"""

from __future__ import annotations
