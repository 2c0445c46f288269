"""Local HTTP server that implements the interface, for tests and demonstrations: store, endpoints, faults, fixture.

May import FastAPI with Starlette, pydantic, uvicorn, pytest (in ``pytest_plugin.py`` only) and the standard library; of
the rest of the package only ``__version__``.
"""

from __future__ import annotations
