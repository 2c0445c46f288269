# SPDX-License-Identifier: Apache-2.0
"""Hook that creates a client from an Airflow connection, and access to object storage.

May import Airflow, ``api``, ``storage`` and ``get_provider_info``, but nothing of ``reconcile``, ``snapshots`` or
``operators``.
"""

from __future__ import annotations
