# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from importlib.util import find_spec

#: Only the environment of ``make test-distributed`` has what these tests need.
collect_ignore_glob = [] if find_spec("celery") else ["test_*.py"]
