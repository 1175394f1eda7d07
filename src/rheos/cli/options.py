"""Options: those of settings, once for all commands that take them; those that are the program's, and
those that are nearly one of ours; durations and sizes."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.sizes import size_bytes
from rheos.core.protocol.state_config import NewAggregates

PASSES_ARGUMENTS_ON = {"ignore_unknown_options": True}
"""Options that are not ours belong to the job file, as does all that follows `--`."""

_ALIKE = 0.8


class PassingOn(TyperCommand):
    """Refuses an option that is nearly one of ours. A job that was to start from a savepoint would
    otherwise begin with nothing, because of one letter."""

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
                    f"there is no option {name}. Did you mean {meant[0]}? Write options of the "
                    f"program after --",
                    ctx,
                )
        return super().parse_args(ctx, args)


def width(value: str | None) -> int | str | None:
    """A number where it is one."""
    return int(value) if value is not None and value.isdecimal() else value


def _may_be_a_width(value: str | None) -> str | None:
    """Return the value if it is a valid parallelism for any bounds of the program; refuse it
    otherwise."""
    from rheos.api.widths import read_width
    from rheos.core.state.key_groups import MAX_KEY_GROUPS

    return _checked(value, lambda said: read_width(width(said) or said, MAX_KEY_GROUPS))


def duration(value: str | None) -> str | None:
    """The option's callback: refuses what is no duration before anything is done."""
    return _checked(value, duration_ms)


def size(value: str | None) -> str | None:
    """Likewise, what is no size."""
    return _checked(value, size_bytes)


def _checked(value: str | None, read: Callable[[str], object]) -> str | None:
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
        help="Its id or name, a beginning of these, or its process id; JOB@DIRECTORY where several "
        "have the same.",
    ),
]
Timeout = Annotated[
    str, typer.Option(callback=duration, help="How long to wait for it, such as 30s or 2h.")
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The Python file that builds the job.")]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="Its own arguments; after `--` all are its own."),
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
        "only. Needs rheos\\[prometheus].",
        show_default=False,
    ),
]

MetricsNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics-name",
        metavar="NAME",
        help="A name by which scrapes call this machine, besides its host name and its addresses. May "
        "be given several times.",
        show_default=False,
    ),
]

OtlpUrl = Annotated[
    str | None,
    typer.Option(
        "--otlp",
        metavar="URL",
        help="The collector of OpenTelemetry that the jobs' metrics are sent to, such as "
        "http://127.0.0.1:4318. Needs rheos\\[opentelemetry].",
        show_default=False,
    ),
]

WithDashboard = Annotated[
    bool,
    typer.Option(
        "--dashboard",
        help="Serve the dashboard while the job runs, on loopback alone. Needs rheos\\[dashboard].",
    ),
]

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="TOML",
        help="A file of settings, by the names of rh.Settings. What is given here wins over it, and "
        "it over the program.",
    ),
]
Parallelism = Annotated[
    int | None, typer.Option(min=1, help="Subtasks of every operator.", show_default=False)
]
Width = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto|auto:N..M",
        callback=_may_be_a_width,
        help="Subtasks of every operator; auto follows the load, from N to M.",
        show_default=False,
    ),
]
RuntimeOption = Annotated[
    str | None, typer.Option(help="continuous, batch or simulated.", show_default=False)
]
Master = Annotated[
    str | None, typer.Option(help="A Spark master, such as local[4] or spark://host:7077.")
]
CheckpointDir = Annotated[
    str | None, typer.Option(help="Directory for checkpoints: a folder or an fsspec URL.")
]
CheckpointInterval = Annotated[
    str | None, typer.Option(callback=duration, help="Time between checkpoints, such as 10s.")
]
FromSavepoint = Annotated[
    str | None,
    typer.Option(
        help="Take the state from this savepoint, unless the job goes on from checkpoints that "
        "it has taken since."
    ),
]
AllowDropped = Annotated[
    bool,
    typer.Option("--allow-dropped", help="Drop state that no operator of the program uses."),
]
NewAggregatesOption = Annotated[
    NewAggregates | None,
    typer.Option(
        metavar="null|since",
        help="A new aggregate is null for windows that have rows from before the upgrade, or the value "
        "of the rows since then.",
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(metavar="OLD=NEW", help="The operator with this uid has another one now; repeatable."),
]
MinParallelism = Annotated[
    int | None,
    typer.Option(min=1, help="Continue with as few as this many subtasks if slots are lost for good."),
]
StateBackendOption = Annotated[
    str | None,
    typer.Option(help="memory, or rocksdb for state that outgrows it."),
]
StateMemory = Annotated[
    str | None,
    typer.Option(callback=size, help="About how much memory the state of a slot takes, such as 512MB."),
]
UnalignedAfter = Annotated[
    str | None,
    typer.Option(
        callback=duration,
        help="Time a barrier waits before it overtakes rows: 0s to overtake at once, or 5s.",
    ),
]
MaxConcurrent = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of concurrent checkpoints.")
]
AtLeastOnce = Annotated[
    bool,
    typer.Option("--at-least-once", help="No input waits for barriers; rows may count twice."),
]


LogLevelOption = Annotated[
    str | None,
    typer.Option(
        help="Keep what workers log from this level on: debug, info, warning or error.",
        show_default=False,
    ),
]
AlertWebhookOption = Annotated[
    str | None,
    typer.Option(
        envvar="RHEOS_ALERT_WEBHOOK",
        show_envvar=True,
        help="Post changes of the job's health as JSON to this http(s) address.",
        show_default=False,
    ),
]
AlertFromOption = Annotated[
    str | None,
    typer.Option(help="Post from this state on: degraded, stuck or failing.", show_default=False),
]
LogJson = Annotated[
    bool,
    typer.Option(
        "--log-json",
        help="Print the lines of the jobs' logs to stderr as JSON, in place of their status.",
    ),
]


class Until(StrEnum):
    NOW = "now"


UntilOption = Annotated[
    Until | None,
    typer.Option(
        "--until",
        help="now: read what is there, take a checkpoint, and stop. The next run goes on from it; "
        "windows stay open. Needs --checkpoint-dir.",
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

Param = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        callback=lambda values: parameters(values) and values,
        help="A parameter of the job, over that of the program; as often as there are some.",
        show_default=False,
    ),
]


def parameters(values: list[str] | None) -> dict[str, str]:
    """Return the values of `--param` by name. Raises typer.BadParameter."""
    found: dict[str, str] = {}
    for text in values or []:
        name, given, value = text.partition("=")
        if not given or not name.strip():
            raise typer.BadParameter(f"{text!r} is no parameter: write --param threshold=10")
        found[name.strip()] = value
    return found


def renames(values: list[str] | None) -> dict[str, str]:
    """Return the new uids of `--rename` by the old ones. Raises typer.BadParameter."""
    found: dict[str, str] = {}
    for text in values or []:
        old, given, new = (part.strip() for part in text.partition("="))
        if not given or not old or not new:
            raise typer.BadParameter(f"{text!r} renames nothing: write --rename OLD=NEW")
        found[old] = new
    return found


OPTIONS = {
    "parallelism": "--parallelism",
    "runtime": "--runtime",
    "master": "--master",
    "checkpoint_dir": "--checkpoint-dir",
    "checkpoint_interval": "--checkpoint-interval",
    "from_savepoint": "--from-savepoint",
    "allow_dropped": "--allow-dropped",
    "new_aggregates": "--new-aggregates",
    "renamed": "--rename",
    "min_parallelism": "--min-parallelism",
    "state.backend": "--state-backend",
    "state.memory_bytes": "--state-memory",
    "checkpoints.unaligned_after": "--unaligned-after",
    "checkpoints.max_concurrent": "--max-concurrent-checkpoints",
    "checkpoints.at_least_once": "--at-least-once",
    "log_level": "--log-level",
    "alert_webhook": "--alert-webhook",
    "alert_from": "--alert-from",
}
"""The option of each setting that has one."""
