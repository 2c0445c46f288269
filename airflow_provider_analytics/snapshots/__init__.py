"""The website list as files: rows, formats, manifest, publication, and changes between two snapshots.

Imports ``api`` and ``storage``, and never Airflow.
"""

from __future__ import annotations
