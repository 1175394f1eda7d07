"""The OpenAPI document of the operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rheos.core.protocol.error_data import ErrorData
from rheos.core.version import VERSION
from rheos.ops.dashboard.operations import Operation, operations
from rheos.runtimes.operation_contract import REST_BASE

ERRORS = {
    400: "The request is invalid, or this job cannot serve it",
    401: "The token is missing or unknown",
    403: "The role of the token does not allow it",
    404: "The job does not exist",
    409: "The job is not running, or could not perform the operation and continues",
    503: "The job did not respond in time",
}


def document() -> dict[str, Any]:
    """Return the document of OpenAPI 3.1, as JSON."""
    known = operations()
    types = [ErrorData, *(t for op in known for t in (op.answer, op.body) if t is not None)]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in known:
        paths.setdefault(REST_BASE + operation.path, {})[operation.method.lower()] = _described(
            operation, schema_of
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rheos", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(operation: Operation, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    errors = {
        str(code): {"description": text, "content": _json(schema_of[ErrorData])}
        for code, text in ERRORS.items()
    }
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "query",
            "description": parameter.description,
            "schema": {"type": "array", "items": {"type": "string"}},
        }
        for name, parameter in operation.query.items()
    ]
    if "{job}" in operation.path:
        job = {"name": "job", "in": "path", "required": True, "schema": {"type": "string"}}
        parameters.append({**job, "description": "The key of a job, from the list of jobs"})
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Needs the role {operation.role.value!r}.",
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done", "content": _json(schema_of[operation.answer])},
            **errors,
        },
    }
    if operation.deprecated:
        described["deprecated"] = True
    if operation.body is not None:
        described["requestBody"] = {"content": _json(schema_of[operation.body])}
    return described


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
