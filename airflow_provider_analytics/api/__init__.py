# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface of the service: fields, requests, responses, and the proof that a list is complete.

May import ``exceptions`` and ``__version__`` of this package, and never Airflow. Only ``transport.py`` imports
requests.
"""

from __future__ import annotations
