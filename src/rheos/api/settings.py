"""The settings of a job, with their meanings and defaults.

They can be set in four places, each of which takes precedence over those below it:

1. on the command line: `rheos run job.py --parallelism 8`;
2. in a file of settings: `rheos run job.py --config job.toml`;
3. in the program, as arguments: `rh.Environment(parallelism=8)`;
4. in the program, as a whole: `rh.Environment(settings=rh.Settings(parallelism=8))`.

All except the command line use the names of `Settings`. `partial` holds the settings of each place and
merges them; `resolve` converts the result for a runtime.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from rheos.core.checkpoint.config import RestartStrategy
from rheos.core.protocol.durations import Duration
from rheos.core.protocol.state_config import StateConfig
from rheos.core.redaction import redacted_repr
from rheos.runtimes.job_handle import Runtime

RuntimeName: TypeAlias = Literal["auto", "continuous", "batch", "simulated"]
StateChoice: TypeAlias = StateConfig | Literal["memory", "rocksdb"]
NewAggregatesName: TypeAlias = Literal["null", "since"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
AlertFrom: TypeAlias = Literal["degraded", "stuck", "failing"]
Folder: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Checkpoints:
    """Further settings of checkpoints: `rh.Environment(checkpoints=rh.Checkpoints(...))`.

    Args:
        max_concurrent: maximum number of checkpoints in progress. More than one keeps the interval even
            if a checkpoint takes longer.
        unaligned_after: maximum time a barrier waits for rows before it overtakes them; these rows are
            then stored with the checkpoint: "0s" at once, None never. It keeps checkpoints fast under
            back-pressure, but makes them larger.
        at_least_once: inputs do not wait for barriers, so a row may count twice in state after a
        failure.
        retain: number of completed checkpoints to keep.
        min_pause: minimum time from the end of one checkpoint to the start of the next; only for one
            checkpoint at a time.
        tolerable_failures: number of consecutive checkpoints that may fail before the job restarts.
    """

    max_concurrent: int = 1
    unaligned_after: Duration | None = None
    at_least_once: bool = False
    retain: int = 2
    min_pause: Duration = "0s"
    tolerable_failures: int = 3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a job, with their defaults.

    Args:
        parallelism: number of subtasks of each operator; each takes a slot of the cluster. None means
            the number of the machine's cores, but at most 4. "auto:2..8" follows the load from 2 to 8,
            and "auto" from 1 to the number of slots; only in the continuous runtime.
        max_parallelism: the number of key groups that state is kept in, and so the highest
            parallelism at which it can be read again. It stays the same for the life of a job.
        min_parallelism: a job that has lost slots for good continues with fewer, down to this many.
            None waits until there are enough.
        runtime: "continuous", "batch" or "simulated"; "auto" means batch if every source is bounded and
            there is no loop, and continuous otherwise. Or a runtime itself.
        spark: a SparkSession to run on; by default the existing session, or a new one.
        master: a Spark master, such as "local[4]" or "spark://host:7077".
        checkpoint_dir: folder for checkpoints and the job's log: a path or an fsspec URL. A job that is
            restarted with the same name and folder resumes. None means a temporary folder, which is
            removed with the job.
        checkpoint_interval: interval between checkpoints; None means only at the end of the input.
        checkpoint_timeout: a checkpoint that takes longer is aborted.
        checkpoints: further settings of checkpoints; see `rh.Checkpoints`.
        restart: strategy after a failure; see `rh.restart`. None is `exponential_delay()`.
        state: state backend: "memory", or "rocksdb" for state larger than memory; a `rh.StateConfig`
            also sets the memory limit and the folder of its files.
        from_savepoint: folder or URL of a savepoint from which the job starts, unless it has taken
            checkpoints since.
        allow_dropped: whether to drop state of the savepoint that no operator of the program uses;
            otherwise the job is refused.
        new_aggregates: result of a new aggregate for windows with rows from before the program changed:
            "null", or "since" for the value of the rows since then. None refuses the job. Windows that
            begin later are not affected.
        renamed: new uids of operators by the uids in the savepoint: `{"old": "new"}`.
        batch_rows: maximum rows of a batch. If rows are slow to process, batches are smaller: as many
            rows as an operator processes in about 16 ms.
        buffer_timeout: maximum time that a row waits for its batch to fill: 0 sends at once, -1 sends
            full batches only.
        credits: maximum number of batches in flight per channel.
        latency: latency objective of a row from source to sink (p99). The job then keeps adjusting the
            buffer timeout and the batch size: so `buffer_timeout` cannot be set as well, and
            `batch_rows` is the maximum. Ignored in batch.
        encrypt: whether the processes of the job encrypt their connections and accept only peers with
            the job's keys. None does so between machines only; False never does.
        heartbeat_timeout: a worker that has not reported for this long counts as lost, and the job
            resumes from the last checkpoint; a worker that has not heard from its driver for this long
            exits.
        history_interval: interval at which the job's metrics are stored next to its checkpoints: 360
            values, and 1008 values of one for each 60 of them. At 10 s that is an hour and a week. None
            disables it.
        log_level: minimum level of log messages of the program and its libraries in the workers that
            are written to the job's log file: "debug", "info", "warning" or "error". None disables the
            file.
        alert_webhook: http or https address to which the driver posts changes of the job's health as
            JSON. None disables it.
        alert_from: least severe state that is posted: "degraded", "stuck" or "failing".
    """

    parallelism: int | str | None = None
    max_parallelism: int = 128
    min_parallelism: int | None = None
    runtime: RuntimeName | Runtime = "auto"
    spark: Any | None = None
    master: str | None = None
    checkpoint_dir: Folder | None = None
    checkpoint_interval: Duration | None = "10s"
    checkpoint_timeout: Duration = "10m"
    checkpoints: Checkpoints = Checkpoints()
    restart: RestartStrategy | None = None
    state: StateChoice = "memory"
    from_savepoint: Folder | None = None
    allow_dropped: bool = False
    new_aggregates: NewAggregatesName | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    batch_rows: int = 16_384
    buffer_timeout: Duration | int = "10ms"
    credits: int = 4
    latency: Duration | None = None
    encrypt: bool | None = None
    heartbeat_timeout: Duration = "15s"
    history_interval: Duration | None = "10s"
    log_level: LogLevel | None = "info"
    alert_webhook: str | None = field(default=None, repr=False)
    alert_from: AlertFrom = "stuck"

    __repr__ = redacted_repr


class SettingArguments(TypedDict, total=False):
    """Keyword arguments of `rh.Environment`, all optional: the fields of `Settings`, which describes
    them. For type checkers.
    """

    max_parallelism: int
    min_parallelism: int | None
    runtime: RuntimeName | Runtime
    spark: Any | None
    master: str | None
    checkpoint_dir: Folder | None
    checkpoint_interval: Duration | None
    checkpoint_timeout: Duration
    checkpoints: Checkpoints | None
    restart: RestartStrategy | None
    state: StateChoice
    from_savepoint: Folder | None
    allow_dropped: bool
    new_aggregates: NewAggregatesName | None
    renamed: Mapping[str, str]
    batch_rows: int
    buffer_timeout: Duration | int
    credits: int
    latency: Duration | None
    encrypt: bool | None
    heartbeat_timeout: Duration
    history_interval: Duration | None
    log_level: LogLevel | None
    alert_webhook: str | None
    alert_from: AlertFrom
