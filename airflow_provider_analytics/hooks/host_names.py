# SPDX-License-Identifier: Apache-2.0
"""Lookup of host names by the system resolver, within a limited time."""

from __future__ import annotations

import socket
from collections.abc import Collection
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait

#: Seconds for all host names of a list in total.
TIMEOUT = 30.0
_WORKERS = 8


def look_up(name: str) -> list[str]:
    """Return the addresses of a host name, IPv4 and IPv6.

    :raises OSError: if it does not resolve.
    """
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    addresses = [str(socket_address[0]) for _, _, _, _, socket_address in found]
    return list(dict.fromkeys(addresses))


def look_up_all(names: Collection[str], timeout: float = TIMEOUT) -> dict[str, list[str] | str]:
    """Return each host name with its addresses, or with the reason why there are none.

    :param timeout: seconds for all names in total. A resolver that hangs cannot be interrupted: its thread ends later.
    """
    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="analytics-resolver")
    pending = {name: pool.submit(look_up, name) for name in names}
    wait(pending.values(), timeout)
    pool.shutdown(wait=False, cancel_futures=True)
    found: dict[str, list[str] | str] = {}
    for name, addresses in pending.items():
        try:
            found[name] = addresses.result(0)
        except (TimeoutError, CancelledError):
            found[name] = f"no response within {timeout:g} s"
        except (OSError, UnicodeError) as error:
            found[name] = getattr(error, "strerror", None) or str(error)
    return found
