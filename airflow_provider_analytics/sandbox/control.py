# SPDX-License-Identifier: Apache-2.0
"""Control endpoints: the methods of the fixture over HTTP, for clients on this machine.

The endpoints are outside the prefix of the interface and require no API key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from airflow_provider_analytics.sandbox.requests import RecordedRequest

if TYPE_CHECKING:
    from airflow_provider_analytics.sandbox.app import App

PREFIX = "/_sandbox"
_DONE = Response(status_code=204)


class Seed(BaseModel):
    """The number and seed of the websites to generate."""

    model_config = ConfigDict(extra="forbid")

    websites: int = Field(ge=0)
    seed: int = 7


def create_control(state: App) -> Starlette:
    """Return an application with the control endpoints of a sandbox."""

    async def reset(_: Request) -> Response:
        state.reset()
        return _DONE

    async def seed(request: Request) -> Response:
        seed = Seed.model_validate_json(await request.body())
        state.store.seed(seed.websites, seed.seed)
        return _DONE

    async def websites(_: Request) -> Response:
        return JSONResponse(state.store.websites())

    async def faults(request: Request) -> Response:
        if request.method == "DELETE":
            state.faults.clear()
        else:
            state.faults.add(state.fault_type.model_validate_json(await request.body()))
        return _DONE

    async def requests(_: Request) -> Response:
        return JSONResponse(list(map(_without_secrets, state.requests)))

    methods = {reset: ["POST"], seed: ["POST"], websites: ["GET"], faults: ["POST", "DELETE"], requests: ["GET"]}
    routes = [
        Route(f"{PREFIX}/{endpoint.__name__}", endpoint, methods=allowed) for endpoint, allowed in methods.items()
    ]
    return Starlette(routes=routes, exception_handlers={ValueError: _invalid})


async def _invalid(_: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, 422)


def _without_secrets(request: RecordedRequest) -> dict[str, Any]:
    form = []
    for name, value in request.form:
        if name == "password":
            value = "***"
        form.append((name, value))
    return {
        "operation": request.operation,
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "form": form,
        "authorized": request.authorized,
        "status": request.status,
    }
