# SPDX-License-Identifier: Apache-2.0
"""Responses to a create or an update, and different stored values: cases of ``fault_matrix.py``.

A case is correct if the task succeeds and the service stores the sent values, or if the task fails with a typed error
and a value really differs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from fake_services import FakeService

from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator

DOMAIN = "www.bücher.example"
SETTINGS: dict[str, Any] = {"privacy": "private", "exclude_ips": ["192.0.2.1", "192.0.2.2"]}
STORED = {"privacy": 1, "exclude_ips": "192.0.2.1\n192.0.2.2"}

AXES: dict[str, tuple[Any, ...]] = {
    "operation": ("create", "update"),
    "normalises": ("sent", "ascii", "unicode", "lower", "without www"),
    "ignores": ((), ("privacy",), ("exclude_ips",), ("privacy", "exclude_ips")),
    "answers": ("record", "echo", "message", "nothing"),
    "wraps": ("data", "website", None),
    "flags": ("integer", "text"),
}


@dataclass(frozen=True)
class Writer:
    """A way to process a write: the stored domain, the ignored fields, and the response."""

    operation: str
    normalises: str
    ignores: tuple[str, ...]
    answers: str
    wraps: str | None
    flags: str

    @property
    def is_well_behaved(self) -> bool:
        """Whether the sent values are stored."""
        is_same = self.operation == "update" or self.normalises != "without www"
        return is_same and not self.ignores

    def options(self) -> dict[str, Any]:
        """Return the options of the fake services."""
        return {
            "domain_as": self.normalises,
            "ignored_fields": self.ignores,
            "echoes": [self.operation] if self.answers == "echo" else [],
            "message_answers": [self.operation] if self.answers == "message" else [],
            "empty_answers": [self.operation] if self.answers == "nothing" else [],
            "record_key": self.wraps,
            "numbers_as_text": self.flags == "text",
        }


def writers() -> list[Writer]:
    """Return every combination of the axes."""
    return [Writer(*values) for values in itertools.product(*AXES.values())]


@contextmanager
def service() -> Iterator[FakeService]:
    """Run a sandbox with the connection ``writes``."""
    with FakeService() as sandbox:
        os.environ["AIRFLOW_CONN_WRITES"] = sandbox.connection_json()
        try:
            yield sandbox
        finally:
            del os.environ["AIRFLOW_CONN_WRITES"]


def write(sandbox: FakeService, writer: Writer) -> str | None:
    """Try a way; return the problem, or None."""
    sandbox.reset()
    sandbox.configure(**writer.options())
    common: dict[str, Any] = {"task_id": "write", "analytics_conn_id": "writes", **SETTINGS}
    try:
        if writer.operation == "create":
            CreateWebsiteOperator(domain=DOMAIN, **common).execute({})
        else:
            UpdateWebsiteOperator(website_id=sandbox.add_website(DOMAIN)["id"], **common).execute({})
    except (AirflowFailException, AnalyticsError) as error:
        return f"what was stored was rejected: {error}" if writer.is_well_behaved else None
    stored = sandbox.websites()
    if len(stored) != 1 or not same_domain(stored[0]["domain"], DOMAIN):
        return f"success, and the websites are {[website['domain'] for website in stored]}"
    wrong = [name for name, value in STORED.items() if stored[0][name] != value]
    return f"success, and {', '.join(wrong)} are not stored" if wrong else None
