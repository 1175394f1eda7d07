"""Commands for job operations, each derived from the operation's declaration.

An argument of the operation becomes an option or a positional argument. The command waits for the
response and prints it.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Annotated, Any

import msgspec
import typer

from rheos.cli.options import Job, Json, Timeout, duration
from rheos.core.protocol.durations import duration_ms
from rheos.runtimes import job_operations
from rheos.runtimes.operation_contract import (
    Argument,
    Face,
    JobOperation,
    Meaning,
    arguments_of,
    declared_fields,
    help_text,
)


def add_commands(app: typer.Typer) -> None:
    """Add a command for each operation that declares one."""
    for operation in job_operations.JOB_OPERATIONS:
        if Face.COMMAND in operation.faces:
            app.command(operation.name, help=help_text(operation))(_command(operation))


def _command(operation: type[JobOperation[Any]]) -> Any:
    def run(job: str, timeout: str | None = None, json: bool = False, **given: Any) -> None:
        from rheos.cli.jobs import operate

        arguments = arguments_of(operation)
        values = {name: _value(arguments[name], value) for name, value in given.items()}
        raise typer.Exit(operate(job, operation(**values), timeout, as_json=json))

    # Typer reads the parameters of a command from its signature.
    setattr(run, "__signature__", Signature(_parameters(operation)))  # noqa: B010
    return run


def _parameters(operation: type[JobOperation[Any]]) -> list[Parameter]:
    def made(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    fields = {field.name: field for field in msgspec.structs.fields(operation)}
    arguments = arguments_of(operation)
    parameters = [made("job", Job)]
    for name, kind, *_ in declared_fields(operation, lambda name, kind, argument: kind):
        field, argument = fields[name], arguments[name]
        default = Parameter.empty if field.required else field.default
        if argument.seconds:
            kind, default = str, default if field.required else f"{default:g}s"
        parameters.append(made(name, Annotated[kind, _declaration(name, argument, default)], default))
    if operation.timeout is not None:
        parameters.append(made("timeout", Timeout, operation.timeout))
    if operation.reports:
        parameters.append(made("json", Json, False))
    return parameters


def _declaration(name: str, argument: Argument, default: Any) -> Any:
    """Return Typer's declaration of one parameter."""
    shown = argument.default or default not in (None, Parameter.empty)
    if argument.positional is not None:
        return typer.Argument(metavar=argument.positional, help=argument.help, show_default=shown)
    option = argument.option or f"--{name.replace('_', '-')}"
    if argument.seconds:
        return typer.Option(option, metavar="DURATION", callback=duration, help=argument.help)
    return typer.Option(option, help=argument.help, show_default=shown)


def _value(argument: Argument, value: Any) -> Any:
    """Convert the value of the command's parameter to that of the operation's field."""
    if value is None:
        return None
    if argument.seconds:
        return duration_ms(value) / 1000
    if argument.meaning is Meaning.SAVEPOINT_FOLDER:
        from rheos.connectors.urls import absolute

        return absolute(value)
    return value
