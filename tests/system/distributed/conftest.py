# SPDX-License-Identifier: Apache-2.0
"""Tests of several workers: they need the environment of ``make test-distributed``."""

from __future__ import annotations

from importlib.util import find_spec

#: Only the environment of ``make test-distributed`` has the required programs.
collect_ignore_glob = [] if find_spec("celery") else ["test_*.py"]
