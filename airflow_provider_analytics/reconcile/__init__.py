# SPDX-License-Identifier: Apache-2.0
"""Bring websites to a desired state, in three steps with a folder each: ``desired``, ``plan``, ``apply``.

``desired`` reads the requested state from files, arguments, and list tables. ``plan`` computes the changes, and has
their guards and their approval. ``apply`` sends the changes and verifies them. Each imports only the folders before
it. ``engine.py`` connects the steps, ``state.py`` writes to the state folder, and ``service_websites.py``
reads the websites of the service.

Imports ``api``, ``guards``, and ``storage``, and never Airflow.
"""

from __future__ import annotations
