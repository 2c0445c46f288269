"""The control endpoints: what the fixture can do, over HTTP, for clients of this machine.

They are outside the prefix of the interface and need no API key.
"""

from __future__ import annotations

import ipaddress
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from airflow_provider_analytics import __version__
from airflow_provider_analytics.sandbox.faults import Fault
from airflow_provider_analytics.sandbox.responses import Options
from airflow_provider_analytics.sandbox.state import RecordedRequest, State
from airflow_provider_analytics.sandbox.store import Website

PREFIX = "/_sandbox"


class Seed(BaseModel):
    """How many websites to invent, and which."""

    model_config = ConfigDict(extra="forbid")

    websites: int = Field(ge=0)
    seed: int = 7


def create_control(state: State) -> FastAPI:
    """Return the application with the control endpoints of ``state``."""
    app = FastAPI(
        title="Control of the sandbox",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    router = APIRouter(prefix=PREFIX, dependencies=[Depends(_from_this_machine)])

    @router.post("/reset", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def reset() -> None:
        """Back to the start: no websites, the first options, no faults, an empty log."""
        state.reset()

    @router.post("/seed", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def seed(wanted: Seed) -> None:
        """Add invented websites."""
        state.store.seed(wanted.websites, wanted.seed)

    @router.get("/websites")
    async def websites() -> list[Website]:
        """Every website, oldest first, without passwords."""
        return state.store.websites()

    @router.get("/options")
    async def options() -> Options:
        """The options in force."""
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
        """The faults in force; ``skip`` and ``times`` are what is left of them."""
        return state.faults.pending()

    @router.post("/faults", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def add_fault(fault: Fault) -> None:
        """Put a fault behind those in force."""
        state.faults.add(fault)

    @router.delete("/faults", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def clear_faults() -> None:
        """Forget all faults."""
        state.faults.clear()

    @router.get("/requests")
    async def requests() -> list[dict[str, Any]]:
        """The requests since the start, in order of arrival, without secrets."""
        return [_without_secrets(request) for request in state.requests]

    @router.delete("/requests", status_code=HTTPStatus.NO_CONTENT, response_model=None)
    async def clear_requests() -> None:
        """Forget the requests recorded so far."""
        state.requests.clear()

    app.include_router(router)
    return app


async def _from_this_machine(request: Request) -> None:
    if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
        raise HTTPException(HTTPStatus.FORBIDDEN, "The control endpoints are for clients of this machine.")


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
