"""Connectors, and the parts from which they are built: `rh.connectors` has the stable names for your
own connectors.

A **source** is a frozen, picklable description of the origin of rows. It is divided into *splits*. A
reader reads each split, and returns its position in it. The calls, in order:

    driver    source.splits()                   before the job runs
    subtask   source.open(split, position)      for each split that is assigned to it
              reader.poll(max_rows), ...        until EndOfSplit; it never blocks
              reader.position()                 between two polls, at each checkpoint
              reader.close()                    at the end, also after an error

A source may have further **capabilities**, each of which is a small protocol (`Discovers`,
`SharesClient`, ...). With capabilities, there are further calls:

    driver    source.as_of_now()                once, if the run stops at what exists now
              source.staged(folder)             once, before `splits`
              source.discover()                 every `discovery_ms`, in a thread
              source.released()                 when the job has ended
    subtask   source.client(ctx)                once, before its first reader, if it has any split
              client.completed(positions)       when the checkpoint is in the log
              client.close()                    at the end, also after an error

A **sink** is a frozen, picklable description of the target of rows. It has two phases: its writers
stage rows durably, and a committer publishes them when the checkpoint is complete. The calls, in order:

    program   sink.validate(schema)             when the program is built
    driver    committer.commit(committables)    after a failure: what the log has, again
              committer.abort_stale(...)        before each attempt: the rest of those before it
    subtask   sink.open(ctx)                    once for each attempt
              writer.write(batch), ...
              writer.prepare(checkpoint)        at each barrier
              committer.commit(committables)    when the checkpoint is in the log
              writer.close()                    at the end, also after an error

If the sink has capabilities (`PreparesTarget`, `StagesOutput`, `BeginsTarget`, ...), the driver first
makes these calls, when the job is submitted:

    driver    sink.prepared(...).staged(...)    once
              committer.check(), .begin()       if the job starts without a checkpoint

A **lookup** is a frozen, picklable description of an outside system from which rows are requested by
key (`connectors.lookup`). The calls, in order:

    program   lookup.validate(keys)             when the program is built
    subtask   lookup.open(ctx)                  once for each attempt
              client.fetch(keys), ...           on the I/O executor, one call at a time
              client.close()                    at the end, also after an error

A subtask makes all calls in its mailbox, except those of the committer and `client.completed`. Readers
never wait: they pass work that waits to `ctx.io`. A writer may wait, and then the whole subtask waits.
`rheos.testing.check_source` and `check_sink` check a connector against this contract.
"""

import sys as _sys

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.core.connectors.capabilities import (
    CatchesUp,
    Discovers,
    FixesEventTime,
    ForgetsSplits,
    HasDataFrame,
    HasEndlessSplits,
    HasSession,
    HasStopReason,
    IsPaced,
    KnowsEarliestTimes,
    KnowsSplitValues,
    LosesRows,
    MakesRecords,
    OrdersSplits,
    PrunesColumns,
    ReadsAlone,
    ReadsUntilNow,
    RejectsRecords,
    ReleasesStaging,
    ReportsLag,
    ReportsPlaces,
    RunsQueries,
    SelectsSplits,
    SharesClient,
    StagesRows,
    StopsJob,
    StoresParquet,
    UnfitForSparkError,
)
from rheos.core.connectors.contract import (
    Committer,
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    SourceClient,
    Split,
    SplitReader,
    TimeReached,
)
from rheos.core.connectors.datasets import Dataset, NamesDatasets
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.connectors.sink_capabilities import (
    BeginsTarget,
    ChecksTarget,
    CollectsRows,
    CommitsAfterOutages,
    CommitsOnDriver,
    HasCommitter,
    HasRoom,
    HasTargetShape,
    LimitsWriters,
    NumbersByLog,
    PreparesTarget,
    StagesOutput,
    StaysInProcess,
    TakesChanges,
    WritesChanges,
)
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.ports import Clock, Completion, IoExecutor
from rheos.core.protocol.shapes import TypeShape
from rheos.core.times import TimeColumn
from rheos.core.unknown_names import with_hints as _with_hints

__all__ = [
    "Attempt",
    "Batch",
    "BeginsTarget",
    "CatchesUp",
    "CheckpointId",
    "ChecksTarget",
    "Clock",
    "CollectsRows",
    "CommitsAfterOutages",
    "CommitsOnDriver",
    "Committer",
    "Completion",
    "ConnectorRegistration",
    "Dataset",
    "Discovers",
    "EndOfSplit",
    "FixesEventTime",
    "ForgetsSplits",
    "Found",
    "HasCommitter",
    "HasDataFrame",
    "HasEndlessSplits",
    "HasRoom",
    "HasSession",
    "HasStopReason",
    "HasTargetShape",
    "IoExecutor",
    "IsPaced",
    "JobId",
    "KnowsEarliestTimes",
    "KnowsSplitValues",
    "LimitsWriters",
    "Lookup",
    "LookupClient",
    "LookupContext",
    "LosesRows",
    "MakesRecords",
    "NamesDatasets",
    "NumbersByLog",
    "OrdersSplits",
    "Pending",
    "Polled",
    "PreparesTarget",
    "PrunesColumns",
    "ReaderContext",
    "ReadsAlone",
    "ReadsUntilNow",
    "RejectsRecords",
    "ReleasesStaging",
    "ReportsLag",
    "ReportsPlaces",
    "RowPlaces",
    "RunsQueries",
    "SelectsSplits",
    "SharesClient",
    "Sink",
    "SinkContext",
    "SinkGuarantee",
    "SinkWriter",
    "Source",
    "SourceClient",
    "Split",
    "SplitReader",
    "StagesOutput",
    "StagesRows",
    "StaysInProcess",
    "StopsJob",
    "StoresParquet",
    "TakesChanges",
    "TimeColumn",
    "TimeReached",
    "TypeShape",
    "UnfitForSparkError",
    "WritesChanges",
]

_with_hints("connectors", _sys.modules[__name__])
