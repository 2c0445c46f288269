"""Host names to addresses, by the resolver of the system and within a bounded time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection
from queue import Empty, SimpleQueue

#: Seconds for all host names of a list together.
TIMEOUT = 30.0
_WORKERS = 8


def look_up(name: str) -> list[str]:
    """Return the addresses of a host name, IPv4 and IPv6.

    :raises OSError: if it does not resolve.
    """
    return list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)))


def look_up_all(names: Collection[str], timeout: float = TIMEOUT) -> dict[str, list[str] | str]:
    """Return each host name with its addresses, or with why there are none.

    :param timeout: seconds for all together: a resolver that hangs cannot be interrupted, and is left behind.
    """
    waiting: SimpleQueue[str] = SimpleQueue()
    answers: SimpleQueue[tuple[str, list[str] | str]] = SimpleQueue()
    for name in names:
        waiting.put(name)

    def work() -> None:
        while True:
            try:
                name = waiting.get_nowait()
            except Empty:
                return
            try:
                answers.put((name, look_up(name)))
            except (OSError, UnicodeError) as error:
                answers.put((name, getattr(error, "strerror", None) or str(error)))

    found: dict[str, list[str] | str] = dict.fromkeys(names, f"no answer within {timeout:g} s")
    end = time.monotonic() + timeout
    for _ in range(min(_WORKERS, len(names))):
        threading.Thread(target=work, name="analytics-resolver", daemon=True).start()
    for _ in names:
        try:
            name, answer = answers.get(timeout=max(0.0, end - time.monotonic()))
        except Empty:
            break
        found[name] = answer
    return found
