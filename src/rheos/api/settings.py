"""The settings of a job, with their meanings and defaults.

They can be set in four places, each of which takes precedence over those below it:

1. on the command line: `rheos run job.py --parallelism 8`;
2. in a file of settings: `rheos run job.py --config job.toml`;
3. in the program, as arguments: `rh.Environment(parallelism=8)`;
4. in the program, as a whole: `rh.Environment(settings=rh.Settings(parallelism=8))`.

All except the command line use the names of `Settings`. Each setting is declared once, as a field; see
`rheos.core.protocol.setting`. `partial_settings` holds the settings of each place and merges them;
`resolve` converts the result for a runtime. The command imports this module for its help, so it imports
nothing that takes long.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from rheos.core.errors import ConfigurationError
from rheos.core.protocol.durations import Duration
from rheos.core.protocol.setting import documented, setting, settings_of
from rheos.core.protocol.state_config import StateConfig
from rheos.core.redaction import redacted_repr

if TYPE_CHECKING:
    from rheos.core.checkpoint.config import RestartStrategy
    from rheos.runtimes.job_handle import Runtime

RuntimeName: TypeAlias = Literal["auto", "continuous", "batch", "simulated"]
StateChoice: TypeAlias = StateConfig | Literal["memory", "rocksdb"]
NewAggregatesName: TypeAlias = Literal["null", "since"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
AlertFrom: TypeAlias = Literal["degraded", "stuck", "failing"]
Folder: TypeAlias = str | os.PathLike[str]
Session: TypeAlias = Any
"""A SparkSession."""


@documented
@dataclass(frozen=True)
class Checkpoints:
    """Further settings of checkpoints: `rh.Environment(checkpoints=rh.Checkpoints(retain=3))`."""

    max_concurrent: int = setting(
        1,
        "Maximum number of checkpoints in progress. More than one keeps the interval even if a "
        "checkpoint takes longer.",
        option="--max-concurrent-checkpoints",
    )
    unaligned_after: Duration | None = setting(
        None,
        "Maximum time a barrier waits for rows before it overtakes them, such as 5s. These rows are "
        'then stored with the checkpoint: "0s" at once, None never. It keeps checkpoints fast under '
        "back-pressure, but makes them larger.",
        option="--unaligned-after",
        least=0,
    )
    at_least_once: bool = setting(
        False,
        "Inputs do not wait for barriers, so a row may count twice in state after a failure.",
        option="--at-least-once",
    )
    retain: int = setting(2, "Number of completed checkpoints to keep.")
    min_pause: Duration = setting(
        "0s",
        "Minimum time from the end of one checkpoint to the start of the next. Only for one checkpoint "
        "at a time.",
        least=0,
    )
    tolerable_failures: int = setting(
        3, "Number of consecutive checkpoints that may fail before the job restarts.", least=0
    )

    @staticmethod
    def of(given: object) -> Checkpoints:
        """Return the settings that a program passed.

        Args:
            given: `Checkpoints`, or None for the defaults.

        Returns:
            The settings.

        Raises:
            ConfigurationError: `given` is neither.
        """
        if given is None or isinstance(given, Checkpoints):
            return given or Checkpoints()
        raise ConfigurationError(
            f"checkpoints={given!r} is not known", hint="write checkpoints=rh.Checkpoints(retain=3)"
        )


@documented
@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a job, with their defaults: `rh.Settings(parallelism=8)`."""

    parallelism: int | str | None = setting(
        None,
        "Number of subtasks of each operator; auto follows the load, from N to M. Each subtask takes a "
        "slot of the cluster. None means the number of the machine's cores, but at most 4. "
        '"auto:2..8" follows the load from 2 to 8, and "auto" from 1 to the number of slots; only in '
        "the continuous runtime.",
        section="Parallelism and runtime",
        option="--parallelism",
        metavar="N|auto|auto:N..M",
    )
    max_parallelism: int = setting(
        128,
        "Number of key groups that state is kept in, and so the highest parallelism at which it can be "
        "read again. It stays the same for the life of a job.",
        fixed=True,
    )
    min_parallelism: int | None = setting(
        None,
        "If slots are lost for good, the job continues with as few as this many subtasks. None waits "
        "until there are enough.",
        option="--min-parallelism",
    )
    runtime: RuntimeName | Runtime = setting(
        "auto",
        'Runtime of the job: continuous, batch or simulated. "auto" means batch if every source is '
        "bounded and there is no loop, and continuous otherwise. A program may also pass a runtime "
        "itself.",
        option="--runtime",
    )
    spark: Session | None = setting(
        None, "A SparkSession to run on. None takes the existing session, or makes a new one."
    )
    master: str | None = setting(
        None, "A Spark master, such as local[4] or spark://host:7077.", option="--master"
    )
    checkpoint_dir: Folder | None = setting(
        None,
        "Folder for checkpoints and the job's log: a path or an fsspec URL. A job that is restarted "
        "with the same name and folder resumes. None means a temporary folder, which is removed with "
        "the job.",
        section="Checkpoints and restarts",
        option="--checkpoint-dir",
    )
    checkpoint_interval: Duration | None = setting(
        "10s",
        "Interval between checkpoints, such as 10s. None means only at the end of the input.",
        option="--checkpoint-interval",
    )
    checkpoint_timeout: Duration = setting("10m", "Time after which a checkpoint is aborted.")
    checkpoints: Checkpoints | None = setting(
        Checkpoints(), "Further settings of checkpoints; see `rh.Checkpoints`.", group=Checkpoints
    )
    restart: RestartStrategy | None = setting(
        None, "Strategy after a failure; see `rh.restart`. None is `exponential_delay()`."
    )
    restore_ahead: bool = setting(
        False,
        "Keep as many further slots, which restore each checkpoint next to the running job, or in a "
        "standby. A restart after a lost worker then takes them, and reads little. It needs twice the "
        "slots, and twice the memory of state. Ignored in batch.",
        option="--restore-ahead",
    )
    termination_grace: Duration = setting(
        "20s",
        "Time that the job has to take a checkpoint and end when its driver receives SIGTERM. After "
        "it the driver ends at once, and the job resumes from the checkpoint before. 0s ends it at "
        "once. Kubernetes kills a pod 30 s after SIGTERM by default.",
        least=0,
    )
    termination_savepoint: bool = setting(
        False, "Whether the job takes a savepoint on SIGTERM, instead of a checkpoint."
    )
    state: StateChoice = setting(
        "memory",
        'State backend: "memory", or "rocksdb" for state larger than memory. A `rh.StateConfig` also '
        "sets the memory limit and the folder of its files.",
        section="State",
        group=StateConfig,
    )
    from_savepoint: Folder | None = setting(
        None,
        "Folder or URL of a savepoint from which the job starts, unless it has taken checkpoints "
        "since.",
        option="--from-savepoint",
    )
    allow_dropped: bool = setting(
        False,
        "Drop state of the savepoint that no operator of the program uses. Otherwise the job is "
        "refused.",
        option="--allow-dropped",
    )
    new_aggregates: NewAggregatesName | None = setting(
        None,
        "Result of a new aggregate for a window that has rows from before the program changed: null, "
        "or since for the aggregate of its later rows. None refuses the job. Windows that begin later "
        "are not affected.",
        option="--new-aggregates",
        choices=get_args(NewAggregatesName),
    )
    renamed: Mapping[str, str] = setting(
        dict,
        "New uids of operators, by the uids in the savepoint; the option may be repeated. In a "
        'program, it is a mapping: `{"old": "new"}`.',
        option="--rename",
        metavar="OLD=NEW",
    )
    batch_rows: int = setting(
        16_384,
        "Maximum rows of a batch. If rows are slow to process, batches are smaller: as many rows as an "
        "operator processes in about 16 ms.",
        section="Rows in transit",
    )
    compiled: bool = setting(
        True,
        "Whether functions of plain scalar Python are compiled while they run. Needs the extra "
        "`compiled`.",
    )
    buffer_timeout: Duration | int = setting(
        "10ms",
        "Maximum time that a row waits for its batch to fill: 0 sends at once, -1 sends full batches "
        "only.",
    )
    credits: int = setting(4, "Maximum number of batches in flight per channel.")
    latency: Duration | None = setting(
        None,
        "Latency objective of a row from source to sink (p99). The job then keeps adjusting the buffer "
        "timeout and the batch size: so `buffer_timeout` cannot be set as well, and `batch_rows` is "
        "the maximum. Ignored in batch.",
    )
    encrypt: bool | None = setting(
        None,
        "Whether the processes of the job encrypt their connections and accept only peers with the "
        "job's keys. None does so between machines only; False never does.",
        section="Connections",
    )
    heartbeat_timeout: Duration = setting(
        "15s",
        "A worker that has not reported for this long counts as lost, and the job resumes from the "
        "last checkpoint. A worker that has not heard from its driver for this long exits.",
    )
    history_interval: Duration | None = setting(
        "10s",
        "Interval at which the job's metrics are stored next to its checkpoints. The newest 360 values "
        "are kept, and 1008 values at 60 times the interval: at 10 s, an hour and a week. None "
        "disables it.",
        section="Metrics, logs and alerts",
    )
    log_level: LogLevel | None = setting(
        "info",
        "Minimum level of log messages of the program and its libraries in the workers that are "
        "written to the job's log file. None disables the file.",
        option="--log-level",
        choices=get_args(LogLevel),
    )
    lineage_to: str | None = setting(
        None,
        "Address (http or https) of a catalog, or path of a file, to which the driver sends events of "
        "OpenLineage. None uses the environment variable `OPENLINEAGE_URL`, if it is set.",
        option="--lineage-to",
    )
    alert_webhook: str | None = setting(
        None,
        "Address (http or https) to which the driver posts changes of the job's health as JSON. None "
        "disables it.",
        option="--alert-webhook",
        variable="RHEOS_ALERT_WEBHOOK",
        secret=True,
    )
    alert_from: AlertFrom = setting(
        "stuck",
        "Least severe state of health that is posted.",
        option="--alert-from",
        choices=get_args(AlertFrom),
    )

    __repr__ = redacted_repr


@dataclass(frozen=True, kw_only=True)
class EnvironmentArguments(Settings):
    """The arguments of `rh.Environment`, for type checkers and `help`: any setting, and these."""

    parallelism: int | str | None = field(default=None, kw_only=False)
    settings: Settings | None = None
    parameters: Mapping[str, Any] | None = None
    files: Mapping[str, Folder] | None = None


SETTINGS = settings_of(Settings)
"""Every setting by its name; a part of a group by both: "checkpoints.retain"."""
