#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the way of one task through the package: ``walk.py`` syncs a managed list with three websites.

The task is a ``SyncExcludedIpsOperator`` with a new state folder. It sends its requests to a sandbox server over a real
socket, one at a time. Three numbers are printed:

* Functions: the functions and methods of the package that the task calls, from ``execute`` on. Lambdas, comprehensions,
  generated methods, and calls that only an import makes do not count.
* Files: the files that contain these functions.
* Changes of file: a reader opens each function once, in the order of the first calls. It counts how often the next
  function is in another file than the one before. Each thread is read on its own, in the order of their first calls.

``--list`` also prints each function in this order.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import pkgutil
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

PACKAGE = "airflow_provider_analytics"
ROOT = Path(__file__).resolve().parent.parent / PACKAGE


def run_task(state: str) -> list[CodeType]:
    """Run the task, and return its functions in the order in which a reader opens them."""
    from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
    from airflow_provider_analytics.sandbox.server import SandboxServer

    package = importlib.import_module(PACKAGE)
    for module in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        if not module.name.endswith(("__main__", "pytest_plugin")):
            importlib.import_module(module.name)
    by_thread: dict[int, dict[CodeType, None]] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:  # noqa: ARG001 - the signature of setprofile
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{ROOT}{os.sep}") and not code.co_name.startswith("<"):
            by_thread.setdefault(threading.get_ident(), {})[code] = None

    ti = SimpleNamespace(dag_id="walk", task_id="sync", run_id="run", map_index=-1, try_number=1)
    context: Any = {"ti": ti, "dag_run": SimpleNamespace(start_date=datetime.now(UTC))}
    with SandboxServer() as server:
        for domain in ("a.example", "b.example", "c.example"):
            server.add_website(domain)
        os.environ |= server.connection_env
        sync = SyncExcludedIpsOperator(task_id="sync", exclude_ips=["192.0.2.7"], state_path=state)
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            sync.execute(context)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return list(dict.fromkeys(itertools.chain.from_iterable(by_thread.values())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="also print each function")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        os.environ |= {"AIRFLOW_HOME": folder, "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL"}
        functions = run_task(f"{folder}/state")
    files = [Path(code.co_filename).relative_to(ROOT) for code in functions]
    if arguments.list:
        for file, code in zip(files, functions, strict=True):
            print(f"{file}:{code.co_firstlineno}: {code.co_qualname}")  # noqa: T201
    changes = sum(before != after for before, after in itertools.pairwise(files))
    print(f"{len(set(files))} files, {len(functions)} functions, {changes} changes of file")  # noqa: T201


if __name__ == "__main__":
    main()
