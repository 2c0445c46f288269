# SPDX-License-Identifier: Apache-2.0
"""Types of fixtures, for the tests that use them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import requests

#: ``call`` of the sandbox tests: method, path, and arguments of ``requests``.
Call = Callable[..., requests.Response]
#: ``execute`` of the reconciling tests: an operator and its arguments, without a DAG run.
Execute = Callable[..., Any]
#: ``run_tasks`` of the operator tests: tasks in the same DAG run.
RunTasks = Callable[..., Any]
#: Runs a service with records, as a context: ``with serving(record) as url:``.
Serving = Callable[..., AbstractContextManager[str]]
