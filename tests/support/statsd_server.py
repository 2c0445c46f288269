# SPDX-License-Identifier: Apache-2.0
"""A socket for the metrics of Airflow, in the protocol of StatsD."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from typing import Self

_LINE = re.compile(r"(?P<name>[^:|]+):(?P<value>[-+.\d]+)\|(?P<kind>c|ms|g)")


class StatsD:
    """Adds up the counters and timers by name; a timer is in milliseconds."""

    def __enter__(self) -> Self:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sums: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(b"", self._socket.getsockname())  # ends the thread
        self._thread.join()
        self._socket.close()

    @property
    def settings(self) -> dict[str, str]:
        """Settings of an Airflow that sends its metrics here."""
        return {
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(self._socket.getsockname()[1]),
        }

    def sums(self, prefix: str) -> dict[str, float]:
        """Return the values so far of the metrics whose names start with ``prefix``, without the prefix."""
        with self._lock:
            return {name.removeprefix(prefix): value for name, value in self._sums.items() if name.startswith(prefix)}

    def _receive(self) -> None:
        while data := self._socket.recv(65536):
            with self._lock:
                for found in _LINE.finditer(data.decode()):
                    self._sums[found["name"].strip()] += float(found["value"])  # type: ignore[assignment]
