"""Control endpoints: the methods of the fixture over HTTP, for clients on this machine.

The endpoints are outside the prefix of the interface and require no API key.
"""

from __future__ import annotations

import ipaddress
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from airflow_provider_analytics import __version__
from airflow_provider_analytics.sandbox.faults import Fault
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.state import RecordedRequest, State
from airflow_provider_analytics.sandbox.store import Website

PREFIX = "/_sandbox"


class Seed(BaseModel):
    """The number and seed of the websites to generate."""

    model_config = ConfigDict(extra="forbid")

    websites: int = Field(ge=0)
    seed: int = 7


def create_control(state: State) -> FastAPI:
    """Return an application with the control endpoints for ``state``."""
    app = FastAPI(
        title="Sandbox control",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    router = APIRouter(prefix=PREFIX, dependencies=[Depends(_require_loopback)])

    @router.post("/reset", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def reset() -> None:
        """Remove all websites, faults and recorded requests, and restore the initial options."""
        state.reset()

    @router.post("/seed", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def seed(wanted: Seed) -> None:
        """Add generated websites."""
        state.store.seed(wanted.websites, wanted.seed)

    @router.get("/websites")
    async def websites() -> list[Website]:
        """List all websites, oldest first, without passwords."""
        return state.store.websites()

    @router.get("/options")
    async def options() -> Options:
        """Show the current options."""
        return state.options

    @router.post("/options")
    async def configure(changes: Annotated[dict[str, Any], Body()]) -> Options:
        """Change some options."""
        try:
            state.options = state.options.changed(changes)
        except ValidationError as error:
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, error.errors(include_url=False)) from error
        return state.options

    @router.get("/faults")
    async def faults() -> list[Fault]:
        """List the pending faults; ``skip`` and ``times`` are the remaining counts."""
        return state.faults.pending()

    @router.post("/faults", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def add_fault(fault: Fault) -> None:
        """Append a fault to the pending ones."""
        state.faults.add(fault)

    @router.delete("/faults", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def clear_faults() -> None:
        """Remove all faults."""
        state.faults.clear()

    @router.get("/requests")
    async def requests() -> list[dict[str, Any]]:
        """List the recorded requests in order of arrival, without secrets."""
        return [_without_secrets(request) for request in state.requests]

    @router.delete("/requests", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def clear_requests() -> None:
        """Remove the recorded requests."""
        state.requests.clear()

    app.include_router(router)
    return app


async def _require_loopback(request: Request) -> None:
    if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
        raise HTTPException(HTTPStatus.FORBIDDEN, "The control endpoints accept only clients on this machine.")


def _without_secrets(request: RecordedRequest) -> dict[str, Any]:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    if "authorization" in headers:
        headers["authorization"] = "right" if request.authorized else "wrong"
    return {
        "operation": request.operation,
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "form": [(name, "***" if name == "password" else value) for name, value in request.form],
        "headers": headers,
        "status": request.status,
    }
