"""The tools of an assistant. They are made from the table of REST operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from rheos.core.errors import ConfigurationError
from rheos.ops.dashboard.operation_runner import Caller, OperationRunner
from rheos.ops.dashboard.operations import Operation, operations
from rheos.runtimes.operation_contract import MAX_TEXT, Role

_JOB = "job"


class AssistantTool(Protocol):
    """A tool. `run` is called in its own thread, may take minutes, and raises RheosError."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of its arguments."""

    @property
    def changes_nothing(self) -> bool: ...

    def run(self, arguments: Mapping[str, Any]) -> bytes:
        """Return the answer, as JSON in UTF-8."""


@dataclass(frozen=True)
class OperationTool:
    """A REST operation as a tool."""

    operation: Operation
    runner: OperationRunner
    caller: Caller

    @property
    def name(self) -> str:
        return self.operation.name.replace("-", "_")

    @property
    def description(self) -> str:
        return f"{self.operation.summary}."

    @property
    def changes_nothing(self) -> bool:
        return self.operation.role is not Role.OPERATE or self.operation.changes_nothing

    @property
    def _has_job(self) -> bool:
        return f"{{{_JOB}}}" in self.operation.path

    @property
    def schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        definitions: dict[str, Any] = {}
        if self._has_job:
            properties[_JOB] = {
                "type": "string",
                "description": "Key, id or name of the job, from `jobs`",
            }
            required.append(_JOB)
        for name, parameter in self.operation.query.items():
            properties[name] = {"type": "string", "description": parameter.description}
        if self.operation.body is not None:
            (schema,), definitions = msgspec.json.schema_components(
                [self.operation.body], ref_template="#/$defs/{name}"
            )
            of_body = definitions.pop(schema["$ref"].rpartition("/")[2])
            properties |= of_body["properties"]
            required += of_body.get("required", [])
        found = {"type": "object", "properties": properties, "additionalProperties": False}
        return (
            found
            | ({"required": required} if required else {})
            | ({"$defs": definitions} if definitions else {})
        )

    def run(self, arguments: Mapping[str, Any]) -> bytes:
        given = dict(arguments)
        job = given.pop(_JOB, None) if self._has_job else None
        if self._has_job and not isinstance(job, str):
            raise ConfigurationError("a job must be named", hint="pass its key, id or name as job")
        operation = self.operation
        query = {
            name: [_text(name, given.pop(name))] if name in given else [] for name in operation.query
        }
        body = None
        if operation.body is not None:
            try:
                body = msgspec.convert(given, operation.body)
            except (msgspec.ValidationError, RecursionError) as error:
                raise ConfigurationError(
                    f"the arguments are not valid for {self.name!r}: {error}"
                ) from error
        elif given:
            raise ConfigurationError(
                f"{self.name!r} has no argument {min(given)!r}",
                hint=f"its arguments are: {', '.join(self.schema['properties']) or 'none'}",
            )
        return self.runner.run(operation, job, query, body, self.caller)


def operation_tools(
    runner: OperationRunner, caller: Caller, role: Role | None
) -> Sequence[OperationTool]:
    """Return the tools that a role allows.

    Args:
        runner: Runs the operations.
        caller: Name of the assistant in the audit log.
        role: The role. None allows everything that changes nothing.
    """
    tools = (OperationTool(each, runner, caller) for each in operations() if not each.deprecated)
    return [
        tool
        for tool in tools
        if (tool.changes_nothing if role is None else role.may(tool.operation.role))
    ]


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool) or len(str(value)) > MAX_TEXT:
        raise ConfigurationError(f"{name!r} must be a string of at most {MAX_TEXT} characters")
    return str(value)
