"""Options of commands: options for settings, which all commands share; options of the program,
including mistyped ones; durations and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand

from rheos.api.settings import SETTINGS
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.setting import Setting
from rheos.core.protocol.sizes import size_bytes

if TYPE_CHECKING:
    from rheos.api.overrides import Overrides

PASSES_ARGUMENTS_ON = {"ignore_unknown_options": True}
"""Typer settings: unknown options, and everything after `--`, are arguments of the job file."""

_ALIKE = 0.8
T = TypeVar("T")


class ProgramArguments(TyperCommand):
    """Command that refuses unknown options similar to its own. Otherwise a mistyped option, such as
    that of a savepoint, would be passed to the program, and the job would start without state."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ours = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        for argument in args:
            if argument == "--":
                break
            name = argument.partition("=")[0]
            if not name.startswith("--") or name in ours:
                continue
            meant = get_close_matches(name, ours, 1, _ALIKE)
            if meant:
                raise typer.BadParameter(
                    f"unknown option {name}. Did you mean {meant[0]}? Put options of the "
                    "program after --",
                    ctx,
                )
        return super().parse_args(ctx, args)


def width(value: str | None) -> int | str | None:
    """Return a parallelism, as a number if it is one. Refuse a value that no program accepts. Typer
    calls this function for the option, like the next two."""
    from rheos.api.widths import read_width
    from rheos.core.state.key_groups import MAX_KEY_GROUPS

    read = int(value) if value is not None and value.isdecimal() else value
    return _checked(read, lambda typed: read_width(typed, MAX_KEY_GROUPS))


def duration(value: str | None) -> str | None:
    """Return a duration. Refuse an invalid one before the command does anything."""
    return _checked(value, duration_ms)


def size(value: str | None) -> str | None:
    """Return a size. Refuse an invalid one before the command does anything."""
    return _checked(value, size_bytes)


def _checked(value: T, read: Callable[[Any], object]) -> T:
    if value is not None:
        try:
            read(value)
        except (ConfigurationError, ProgramError) as error:
            raise typer.BadParameter("; ".join(filter(None, (error.what, error.hint)))) from None
    return value


Job = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Its id or name, a prefix of these, or its process id; JOB@DIRECTORY, with its "
        "checkpoint directory, if several have the same name or it runs on another machine.",
    ),
]
Timeout = Annotated[
    str, typer.Option(callback=duration, help="Maximum time to wait, such as 30s or 2h.")
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The Python file that builds the job.")]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGS", help="Arguments of the program; all arguments after `--` belong to it."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

VirtualTime = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="DURATION",
        callback=duration,
        help="With --runtime simulated: end the input after this much virtual time, such as 10m.",
        show_default=False,
    ),
]

MetricsPlace = Annotated[
    str | None,
    typer.Option(
        "--metrics-port",
        metavar="[HOST:]PORT",
        help="Address at which Prometheus scrapes the metrics of jobs; without HOST, on loopback "
        "only. Needs rheos[prometheus].",
        show_default=False,
    ),
]

MetricsNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics-name",
        metavar="NAME",
        help="A name that scrapers use for this machine, besides its host name and its addresses. "
        "May be passed several times.",
        show_default=False,
    ),
]

OtlpUrl = Annotated[
    str | None,
    typer.Option(
        "--otlp",
        metavar="URL",
        help="The collector of OpenTelemetry that the jobs' metrics are sent to, such as "
        "http://127.0.0.1:4318. Needs rheos[opentelemetry].",
        show_default=False,
    ),
]

WithDashboard = Annotated[
    bool,
    typer.Option(
        "--dashboard",
        help="Serve the dashboard while the job runs, on loopback alone. Needs rheos[dashboard].",
    ),
]

LogJson = Annotated[
    bool,
    typer.Option(
        "--log-json",
        help="Print the lines of the jobs' logs to stderr as JSON, instead of their status.",
    ),
]


class UntilChoice(StrEnum):
    NOW = "now"


UntilOption = Annotated[
    UntilChoice | None,
    typer.Option(
        "--until",
        help="now: read all available input, take a checkpoint, and stop. The next run resumes from "
        "it; windows stay open. Needs --checkpoint-dir.",
        show_default=False,
    ),
]

Standby = Annotated[
    bool,
    typer.Option(
        "--standby",
        help="If another driver runs the job, wait and take over when that driver is lost. Ends when "
        "the job ends. Needs --checkpoint-dir.",
    ),
]

Keep = Annotated[
    str,
    typer.Option(
        callback=duration,
        help="Time for which the driver that hands the job over is kept ready for `rheos rollback`.",
    ),
]

Compare = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        callback=duration,
        help="First run both programs over this much new input. Hand over only if their output is "
        "the same.",
        show_default=False,
    ),
]
AllowDifferences = Annotated[
    str | None,
    typer.Option(
        metavar="SINKS",
        help="With --compare: sinks whose output may differ, separated by commas.",
        show_default=False,
    ),
]
AlsoServed = Annotated[
    list[str] | None,
    typer.Option(
        help="Also serve the jobs of this checkpoint directory, running or not. May be given "
        "several times.",
        show_default=False,
    ),
]
AuditFile = Annotated[
    Path | None,
    typer.Option(
        help="File to which a line is appended for every operation.",
        show_default="audit.jsonl in this user's state folder",
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        callback=lambda values: parameters(values) and values,
        help="A parameter of the job, which overrides that of the program; may be passed several "
        "times.",
        show_default=False,
    ),
]


def parameters(values: list[str] | None) -> dict[str, str]:
    """Return the values of `--param` by name. Raises typer.BadParameter."""
    found: dict[str, str] = {}
    for text in values or []:
        name, given, value = text.partition("=")
        if not given or not name.strip():
            raise typer.BadParameter(f"{text!r} is not a parameter: write --param threshold=10")
        found[name.strip()] = value
    return found


def renames(values: list[str] | None) -> dict[str, str]:
    """Return the new uids of `--rename` by the old ones. Raises typer.BadParameter."""
    found: dict[str, str] = {}
    for text in values or []:
        old, given, new = (part.strip() for part in text.partition("="))
        if not given or not old or not new:
            raise typer.BadParameter(f"{text!r} is not a renaming: write --rename OLD=NEW")
        found[old] = new
    return found


# --- the options of settings --------------------------------------------------------------------------


@dataclass(frozen=True)
class GivenSettings:
    """Settings of a command line: a file of settings, and options, which have precedence."""

    config: Path | None
    values: dict[str, Any]
    """Value of each option by name of its setting; None if it was not passed."""

    def overrides(self) -> Overrides:
        """Return the overrides of a program's settings. Ends the command if the file is not valid."""
        from rheos.api import partial_settings
        from rheos.api.overrides import Overrides
        from rheos.cli.terminal import report
        from rheos.core.errors import RheosError

        try:
            files = () if self.config is None else (partial_settings.from_file(self.config),)
        except RheosError as error:
            raise typer.Exit(report(error)) from None
        return Overrides(settings=(*files, partial_settings.from_command(self.values)))


_CONFIG = Annotated[
    Path | None,
    typer.Option(
        metavar="TOML",
        help="A TOML file with settings named as in rh.Settings. Command-line options override it, "
        "and it overrides the program.",
    ),
]


def takes_settings(*names: str, config: bool = True, **defaults: Any) -> Callable[[Any], Any]:
    """Add the options of settings to a command. It receives them as its argument `settings`.

    Args:
        names: the settings; by default, all that have an option.
        config: whether it also has the option `--config`.
        defaults: values of settings that are not given.
    """
    chosen = [SETTINGS[name] for name in names] or [each for each in SETTINGS.values() if each.option]

    def added(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(config: Path | None = None, **given: Any) -> None:
            found = {each.name: given.pop(each.name.replace(".", "_")) for each in chosen}
            values = {
                name: renames(v) or None if isinstance(v, list) else v for name, v in found.items()
            }
            command(settings=GivenSettings(config, values), **given)

        own = signature(command, eval_str=True).parameters
        types = {name: (each.annotation, each.default) for name, each in own.items()}
        del types["settings"]
        if config:
            types["config"] = (_CONFIG, None)
        for each in chosen:
            default = defaults.get(each.name)
            types[each.name.replace(".", "_")] = (_annotation(each, default), default)
        parameters = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in types.items()
        ]
        # Typer reads the parameters of a command from its signature.
        setattr(run, "__signature__", Signature(parameters))  # noqa: B010
        setattr(run, "__annotations__", {})  # noqa: B010
        return run

    return added


def _annotation(declared: Setting, default: Any) -> Any:
    """Return Typer's declaration of a setting's option, which follows from the setting's type."""
    kind, metavar, callback = _TYPES.get(declared.type, (str, None, None))
    if declared.choices:
        literal: Any = Literal
        kind, metavar = literal[declared.choices], "|".join(declared.choices)
    option = typer.Option(
        declared.option,
        metavar=declared.metavar or metavar,
        envvar=declared.variable,
        show_default=default is not None,
        help=declared.help.partition(". ")[0].rstrip(".") + ".",
        callback=callback,
        min=declared.least if kind is int else None,
    )
    return Annotated[kind | None, option]


_TYPES: Mapping[str, tuple[Any, str | None, Callable[[Any], Any] | None]] = {
    "bool": (bool, None, None),
    "int": (int, "N", None),
    "Duration": (str, "DURATION", duration),
    "Folder": (str, "FOLDER", None),
    "Size": (str, "SIZE", lambda value: size(value) and size_bytes(value)),
    "int | str": (str, None, width),
    "Mapping[str, str]": (list[str], None, None),
}
"""Type of the option, metavar, and function that checks or parses the value, by type of the setting."""
