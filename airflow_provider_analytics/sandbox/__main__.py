# SPDX-License-Identifier: Apache-2.0
"""Command line of the sandbox, ``python -m airflow_provider_analytics.sandbox``."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from collections.abc import Sequence

from airflow_provider_analytics.sandbox.store import MAX_SEEDED

_LAST_PORT = 65535


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_analytics.sandbox",
        description="A local server that implements the website analytics interface. It models the interface, not "
        "the vendor's code. Prints its Airflow connection as one line, then serves until interrupted.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 chooses a free port (default)")
    parser.add_argument("--websites", type=int, default=0, metavar="N", help="websites to generate")
    parser.add_argument("--seed", type=int, default=7, help="seed of the generated websites (default: %(default)s)")
    parser.add_argument("--api-key", default=None, metavar="KEY", help="key that clients must send (default: random)")
    given = parser.parse_args(arguments)
    if not 0 <= given.websites <= MAX_SEEDED:
        parser.error(f"argument --websites: must be between 0 and {MAX_SEEDED}")
    if not 0 <= given.port <= _LAST_PORT:
        parser.error(f"argument --port: must be between 0 and {_LAST_PORT}")

    try:
        from airflow_provider_analytics.sandbox.server import CONNECTION_VARIABLE, SandboxServer
    except ModuleNotFoundError as error:
        return _fail(str(error))
    server = SandboxServer(host=given.host, port=given.port, api_key=given.api_key)
    try:
        server.start()
    except OSError as error:
        return _fail(str(error))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    server.seed(given.websites, given.seed)
    sys.stdout.write(f"{CONNECTION_VARIABLE}={shlex.quote(server.connection_json())}\n")
    sys.stdout.flush()
    stop.wait()
    server.stop()
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
