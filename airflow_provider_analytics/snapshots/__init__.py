# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the website list as files: rows, formats, manifest, publication, and changes between two snapshots.

This package imports ``api`` and ``storage``, and never Airflow.
"""

from __future__ import annotations
