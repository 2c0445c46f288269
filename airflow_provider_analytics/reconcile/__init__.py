# SPDX-License-Identifier: Apache-2.0
"""Bring websites to a desired state, in three steps with a folder each: ``desired``, ``plan``, ``apply``.

``desired`` reads the requested state from files, arguments, and list tables. ``plan`` has the changes as a value, its
guards, and its approval. ``apply`` sends the changes, and verifies them. ``engine.py`` connects the steps, and
``service_websites.py`` reads the websites of the service. Imports ``api`` and never Airflow.
"""

from __future__ import annotations
