"""Bring websites to a desired state: plans, exclusion lists, websites as code. Pure functions on values.

Imports ``api`` and never Airflow. ``apply.py`` is the one module with I/O: it sends what a plan says.
"""

from __future__ import annotations
