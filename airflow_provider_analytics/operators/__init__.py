# SPDX-License-Identifier: Apache-2.0
"""The operators: each validates its arguments, calls a hook and pure functions, logs, and returns plain JSON values.

They may import Airflow and everything except ``sandbox``. Modules that DAG parsing does not need are imported inside
methods.
"""

from __future__ import annotations
