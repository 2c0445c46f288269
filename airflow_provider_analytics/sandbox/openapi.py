"""OpenAPI description of the operations, with bodies as rendered under the default options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_analytics.sandbox.fields import SHOWN
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.parameters import (
    CREATE_FIELDS,
    LIST_PARAMETERS,
    UPDATE_FIELDS,
    Parameter,
    page_parameter,
)
from airflow_provider_analytics.sandbox.routes import Route

_Schema = dict[str, Any]


def _object(properties: Mapping[str, Any]) -> _Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: _Schema = {"type": "string"}
_OPTIONAL_TEXT: _Schema = {"type": ["string", "null"]}
_COUNT: _Schema = {"type": "integer", "minimum": 0}
_ID: _Schema = {"type": "integer", "minimum": 1}
_WEBSITE = _object(SHOWN)
_PAGE = _object(
    {
        "data": {"type": "array", "items": _WEBSITE},
        "links": _object(dict.fromkeys(("first", "last", "prev", "next"), _OPTIONAL_TEXT)),
        "meta": _object(
            {
                "current_page": _ID,
                "per_page": _ID,
                "last_page": _ID,
                "from": {"type": ["integer", "null"]},
                "to": {"type": ["integer", "null"]},
                "total": _COUNT,
            }
        ),
    }
)
_DELETED = _object({"id": _ID, "object": {"const": "website"}, "deleted": {"const": True}})
_ACCOUNT = _object({"id": _ID, "name": _TEXT, "email": _TEXT})
_ERROR = _object(
    {
        "message": _TEXT,
        "errors": {"type": "object", "additionalProperties": {"type": "array", "items": _TEXT}},
    }
)


def describe(route: Route) -> dict[str, Any]:
    """Return the arguments of ``add_api_route`` that document a route."""
    operation = route.operation
    summary, status, schema = {
        "list": ("List websites", 200, _PAGE),
        "create": ("Create a website", 201, _object({"data": _WEBSITE})),
        "show": ("Show a website", 200, _object({"data": _WEBSITE})),
        "update": ("Update a website", 200, _object({"data": _WEBSITE})),
        "delete": ("Delete a website", 200, _DELETED),
        "account": ("Show the account", 200, _object({"data": _ACCOUNT})),
    }[operation]
    responses = {
        str(status): _json_response(summary, schema),
        "302": {"description": "Invalid data in a request that does not accept JSON"},
        "401": _json_response("Missing or wrong API key", _ERROR),
        "422": _json_response("Invalid data", _ERROR),
    }
    extra: dict[str, Any] = {"responses": responses}
    parameters: list[_Schema] = []
    if operation in {"show", "update", "delete"}:
        responses["404"] = _json_response("No such website", _ERROR)
        parameters.append({"name": "id", "in": "path", "required": True, "schema": _ID})
    if operation == "list":
        page = page_parameter(Options().page_parameter)
        parameters += [_query_parameter(parameter) for parameter in (*LIST_PARAMETERS, page)]
    if parameters:
        extra["parameters"] = parameters
    if operation in {"create", "update"}:
        responses["415"] = _json_response("The body is not form-encoded", _ERROR)
        extra["requestBody"] = _form_body(CREATE_FIELDS if operation == "create" else UPDATE_FIELDS)
    return {
        "summary": summary,
        "operation_id": f"{operation}_{route.method.lower()}" if operation == "update" else operation,
        "status_code": status,
        "openapi_extra": extra,
    }


def _json_response(description: str, schema: _Schema) -> _Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _query_parameter(parameter: Parameter) -> _Schema:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.meaning,
        "schema": parameter.schema,
    }


def _form_body(fields: Sequence[Parameter]) -> _Schema:
    required = [field.name for field in fields if field.required]
    schema: _Schema = {
        "type": "object",
        "properties": {field.name: {**field.schema, "description": field.meaning} for field in fields},
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    return {"required": bool(required), "content": {"application/x-www-form-urlencoded": {"schema": schema}}}
