# SPDX-License-Identifier: Apache-2.0
"""What some fixtures are, for the tests that ask for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import requests

#: ``call`` of the sandbox's tests: method, path and arguments of ``requests``.
Call = Callable[..., requests.Response]
#: ``execute`` of the reconciling tests: an operator and its arguments, without a DAG run.
Execute = Callable[..., Any]
#: ``run_tasks`` of the operators' tests: tasks in one DAG run.
RunTasks = Callable[..., Any]
#: Runs a service with records, as a context: ``with serving(record) as url:``.
Serving = Callable[..., AbstractContextManager[str]]
