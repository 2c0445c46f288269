# SPDX-License-Identifier: Apache-2.0
"""Local HTTP server that implements the interface, for tests and demonstrations: store, endpoints, faults, fixture.

The sandbox may import Starlette, pydantic, uvicorn and the standard library, and pytest in
``pytest_plugin.py`` only. From the rest of the package, it may import only ``__version__`` and ``api``.
"""

from __future__ import annotations
