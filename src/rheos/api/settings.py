"""The settings of a job: what there is, what each means, and what holds where nothing is said.

They are given in four places, each of which wins over those below it:

1. on the command line: `rheos run job.py --parallelism 8`;
2. in a file of settings: `rheos run job.py --config job.toml`;
3. in the program, as arguments: `rh.Environment(parallelism=8)`;
4. in the program, as a whole: `rh.Environment(settings=rh.Settings(parallelism=8))`.

All but the command line use the names of `Settings`. `partial` holds what each place says, and lays one
over the other; `resolve` makes of the whole what a runtime takes.
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
    """How checkpoints are taken, beyond how often: `rh.Environment(checkpoints=rh.Checkpoints(...))`.

    Args:
        max_concurrent: how many may be under way at a time. More than one keeps the interval where a
            checkpoint takes longer than that.
        unaligned_after: how long a barrier may wait behind rows before it overtakes them, and they are
            stored with the checkpoint: "0s" at once, None never. It keeps checkpoints quick under
            back-pressure, and makes them larger.
        at_least_once: no input waits for barriers, and a row may count twice in state after a failure.
        retain: how many completed checkpoints are kept.
        min_pause: the least time from the end of one to the beginning of the next; only where they are
            taken one at a time.
        tolerable_failures: how many in a row may fail before the job restarts.
    """

    max_concurrent: int = 1
    unaligned_after: Duration | None = None
    at_least_once: bool = False
    retain: int = 2
    min_pause: Duration = "0s"
    tolerable_failures: int = 3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a job, each with what holds where nothing is said.

    Args:
        parallelism: how many subtasks each operator has; each takes a slot of the cluster. None takes
            as many as the machine has cores, but 4 at the most. "auto:2..8" follows the load from 2 to
            8, and "auto" from 1 to as many as there are slots; only in the continuous runtime.
        max_parallelism: the number of key groups that state is kept in, and so the highest
            parallelism at which it can be read again. It stays the same for the life of a job.
        min_parallelism: a job that has lost slots for good goes on with fewer, down to this many. None
            waits until there are enough.
        runtime: "continuous", "batch" or "simulated"; "auto" takes batch where every source is
            bounded and there is no loop, and continuous otherwise. Or a runtime itself.
        spark: a SparkSession to run on; otherwise there is one already, or one is made.
        master: a Spark master, such as "local[4]" or "spark://host:7077".
        checkpoint_dir: where checkpoints and the job's log are kept: a path or an fsspec URL. A job
            that is started again with the same name and folder goes on where it was. None takes a
            temporary folder, which goes with the job.
        checkpoint_interval: how often a checkpoint is taken; None only at the end of the input.
        checkpoint_timeout: a checkpoint that takes longer is given up.
        checkpoints: how they are taken, beyond that; see `rh.Checkpoints`.
        restart: what happens after a failure; see `rh.restart`. None is `exponential_delay()`.
        state: where state is kept while the job runs: "memory", or "rocksdb" for state that outgrows
            it; a `rh.StateConfig` also says how much memory it may take, and where the files go.
        from_savepoint: the folder or URL of a savepoint, from which the job takes its state where it
            does not go on from checkpoints that it has taken since.
        allow_dropped: state of the savepoint that the program has no place for is left behind;
            otherwise the job is refused.
        new_aggregates: what an aggregate that is new gives for windows that have rows from before the
            program changed: "null", or "since" for the value of the rows since then. None refuses the
            job. Windows that begin later are not concerned.
        renamed: the uids that operators have in the program, by those that they had when the savepoint
            was taken: `{"old": "new"}`.
        batch_rows: how many rows travel together at the most. Where they are dear to process there are
            fewer, as many as an operator works on for about 16 ms.
        buffer_timeout: how long a row may wait for others to travel with: 0 sends at once, -1 only
            full batches.
        credits: how many batches a channel may have on the way.
        latency: what a row may take from source to sink (p99). Then the job chooses the buffer timeout
            and the size of batches itself, all the time: so `buffer_timeout` cannot be said as well,
            and `batch_rows` is the most that it chooses. Not looked at in batch.
        encrypt: encrypts what travels between the processes of the job, and takes only those that hold
            its keys. None does so between machines, and has no need of it on one; False never does.
        heartbeat_timeout: a worker that was not heard of for so long is given up, and the job goes on
            from the last checkpoint; a worker that has not heard of its driver for so long leaves.
        history_interval: how often the job's figures are kept beside its checkpoints: 360 times, and
            1008 times one for each 60 of them. At 10 s that is an hour and a week. None keeps none.
        log_level: what the program and its libraries log in the workers, from this level on, is kept in
            the job's log file: "debug", "info", "warning" or "error". None keeps no file.
        alert_webhook: an http or https address to which the driver posts changes of the job's health as
            JSON. None posts none.
        alert_from: the lightest state that is posted: "degraded", "stuck" or "failing".
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
    """Of `rh.Environment`, beside the parallelism: the fields of `Settings`, none of which must be
    given. A type checker knows them by this; what they mean stands there."""

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
