"""The operators: each validates its arguments, calls a hook and pure functions, logs, and returns plain JSON values.

May import Airflow and everything but ``sandbox``. What parsing a DAG file does not need is imported
inside the method that needs it.
"""

from __future__ import annotations
