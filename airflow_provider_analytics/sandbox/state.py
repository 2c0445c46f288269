# SPDX-License-Identifier: Apache-2.0
"""State of a sandbox: options, websites, faults, and recorded requests."""

from __future__ import annotations

from airflow_provider_analytics.sandbox.faults import Fault, FaultQueue
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.service import Service
from airflow_provider_analytics.sandbox.store import Store


class SandboxState:
    """State of a sandbox, which the application and the control endpoints share.

    :param options: initial options.
    :param root: sub-path of the base URL such as ``/app``, or empty.
    """

    fault_type: type[Fault] = Fault
    service_type: type[Service] = Service

    def __init__(self, options: Options, root: str) -> None:
        self.options = options
        self.faults = FaultQueue()
        self.requests: list[RecordedRequest] = []
        self.service = self.service_type(root)
        self._initial_options = options

    @property
    def store(self) -> Store:
        """The websites."""
        return self.service.store

    def reset(self) -> None:
        """Remove all websites, faults and recorded requests, and restore the initial options."""
        self.faults.clear()
        self.options = self._initial_options
        self.service.clear()
        self.requests.clear()
