"""Lookup of host names by the system resolver, within a limited time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection
from queue import Empty, SimpleQueue

#: Seconds for all host names of a list in total.
TIMEOUT = 30.0
_WORKERS = 8


def look_up(name: str) -> list[str]:
    """Return the addresses of a host name, IPv4 and IPv6.

    :raises OSError: if it does not resolve.
    """
    return list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)))


def look_up_all(names: Collection[str], timeout: float = TIMEOUT) -> dict[str, list[str] | str]:
    """Return each host name with its addresses, or with the reason why there are none.

    :param timeout: seconds for all names in total. A resolver that hangs cannot be interrupted, so its thread is
        abandoned.
    """
    waiting: SimpleQueue[str] = SimpleQueue()
    results: SimpleQueue[tuple[str, list[str] | str]] = SimpleQueue()
    for name in names:
        waiting.put(name)

    def work() -> None:
        while True:
            try:
                name = waiting.get_nowait()
            except Empty:
                return
            try:
                results.put((name, look_up(name)))
            except (OSError, UnicodeError) as error:
                results.put((name, getattr(error, "strerror", None) or str(error)))

    found: dict[str, list[str] | str] = dict.fromkeys(names, f"no response within {timeout:g} s")
    end = time.monotonic() + timeout
    for _ in range(min(_WORKERS, len(names))):
        threading.Thread(target=work, name="analytics-resolver", daemon=True).start()
    for _ in names:
        try:
            name, result = results.get(timeout=max(0.0, end - time.monotonic()))
        except Empty:
            break
        found[name] = result
    return found
