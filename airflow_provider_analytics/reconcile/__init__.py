# SPDX-License-Identifier: Apache-2.0
"""Bring websites to a desired state: plans, exclusion lists, websites as code. Pure functions on values.

Imports ``api`` and never Airflow. ``apply.py`` is the only module with I/O: it sends the changes of a plan.
"""

from __future__ import annotations
