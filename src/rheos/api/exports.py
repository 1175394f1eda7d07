"""Names that `rheos` exports: the API."""

from polars import col, lit

from rheos import connectors, formats, ml
from rheos.api import patterns as pattern
from rheos.api import restart
from rheos.api.connected_streams import ConnectedStreams, KeyedConnectedStreams
from rheos.api.environment import Environment
from rheos.api.keyed_stream import KeyedStream
from rheos.api.lookup_tables import lookup_table
from rheos.api.settings import Checkpoints, Settings
from rheos.api.sinks import collect_sink, print_sink
from rheos.api.sources import dataframe, spark_stream
from rheos.api.streams import DataStream
from rheos.api.windowed_stream import WindowedStream
from rheos.connectors import (
    cassandra,
    clickhouse,
    delta,
    duckdb,
    files,
    hbase,
    http,
    iceberg,
    kafka,
    kinesis,
    lancedb,
    mongodb,
    mqtt,
    mysql,
    nats,
    opensearch,
    postgres,
    pulsar,
    rabbitmq,
    redis,
    socket,
    sql_database,
    sqs,
    tables,
)
from rheos.connectors.collection import collection
from rheos.connectors.generator import Block, generator
from rheos.connectors.hybrid import hybrid
from rheos.connectors.replay import Replay
from rheos.connectors.table_log.compaction_policy import compaction
from rheos.connectors.table_log.expiry_policy import expiry
from rheos.core import aggregates as agg
from rheos.core.connectors.retry import retry
from rheos.core.errors import (
    ArgumentsError,
    CheckpointError,
    ConfigurationError,
    FencedError,
    InputError,
    InternalError,
    JobFailedError,
    OutOfMemoryError,
    ProgramError,
    RheosError,
    SchemaError,
    StateAccessError,
    StateError,
    TransportError,
    UnavailableError,
    UnknownImportError,
    UnknownKeyError,
    UnknownNameError,
    UnrestorableError,
    UserFunctionError,
    WorkerLostError,
)
from rheos.core.graph import evictors, triggers
from rheos.core.graph.aggregate_functions import AggregateFunction
from rheos.core.graph.batch_functions import BatchKeys, BatchState, Emit, KeyedBatchFunction
from rheos.core.graph.compilation import compiled
from rheos.core.graph.connected_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessContext,
    ProcessFunction,
)
from rheos.core.graph.functions import (
    AsyncFunction,
    CoGroupFunction,
    KeyedContext,
    KeyedProcessFunction,
    RichFunction,
    TimeWindow,
    WindowContext,
    WindowFunction,
)
from rheos.core.graph.parameters import Parameters
from rheos.core.graph.state import (
    AggregatingState,
    BroadcastState,
    ListState,
    MapState,
    OperatorListState,
    OperatorUnionState,
    ReducingState,
    TimeToLive,
    ValueState,
)
from rheos.core.graph.watermark import Watermark
from rheos.core.graph.watermark_generators import WatermarkGenerator
from rheos.core.graph.window_functions import (
    AssignerContext,
    Element,
    Evictor,
    EvictorContext,
    Trigger,
    TriggerContext,
    TriggerResult,
    WindowAssigner,
)
from rheos.core.graph.windows import (
    CountSliding,
    CountTumbling,
    Cumulating,
    GlobalWindows,
    Session,
    Sliding,
    Tumbling,
)
from rheos.core.operators.runtime_context import RuntimeContext
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.annotations import decimal
from rheos.core.protocol.durations import duration_ms as duration
from rheos.core.protocol.state_config import Backend as StateBackend
from rheos.core.protocol.state_config import StateConfig
from rheos.ops.debugging.debugging import Debugged, debug
from rheos.ops.debugging.key_replay import DebugStep
from rheos.ops.debugging.key_state import StateChange
from rheos.ops.forks.comparison import ForkResult
from rheos.ops.forks.difference import OutputDifference
from rheos.ops.forks.forking import fork
from rheos.ops.lineage.answer import ExplainedRow, SourceRow, StepFiring, WayStep
from rheos.ops.lineage.why_query import WhyResult, why
from rheos.ops.migration.migrating import Migration, migrate
from rheos.ops.savepoints import new_savepoint, savepoint
from rheos.ops.views import query
from rheos.runtimes.host.worker_objects import load_once
from rheos.runtimes.job import CheckpointInfo, JobResult, JobState, JobStatus
from rheos.runtimes.job_handle import JobHandle

__all__ = [
    "Accumulated",
    "AggregateFunction",
    "AggregatingState",
    "ArgumentsError",
    "AssignerContext",
    "AsyncFunction",
    "BatchKeys",
    "BatchState",
    "Block",
    "BroadcastProcessFunction",
    "BroadcastState",
    "CheckpointError",
    "CheckpointInfo",
    "Checkpoints",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConfigurationError",
    "ConnectedStreams",
    "CountSliding",
    "CountTumbling",
    "Cumulating",
    "DataStream",
    "DebugStep",
    "Debugged",
    "Element",
    "Emit",
    "Environment",
    "Evictor",
    "EvictorContext",
    "ExplainedRow",
    "FencedError",
    "ForkResult",
    "GlobalWindows",
    "InputError",
    "InternalError",
    "JobFailedError",
    "JobHandle",
    "JobResult",
    "JobState",
    "JobStatus",
    "KeyedBatchFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedConnectedStreams",
    "KeyedContext",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListState",
    "MapState",
    "Migration",
    "OperatorListState",
    "OperatorUnionState",
    "OutOfMemoryError",
    "OutputDifference",
    "Parameters",
    "ProcessContext",
    "ProcessFunction",
    "ProgramError",
    "ReducingState",
    "Replay",
    "RheosError",
    "RichFunction",
    "RuntimeContext",
    "SchemaError",
    "Session",
    "Settings",
    "Sliding",
    "SourceRow",
    "StateAccessError",
    "StateBackend",
    "StateChange",
    "StateConfig",
    "StateError",
    "StepFiring",
    "TimeToLive",
    "TimeWindow",
    "TransportError",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "Tumbling",
    "UnavailableError",
    "UnknownImportError",
    "UnknownKeyError",
    "UnknownNameError",
    "UnrestorableError",
    "UserFunctionError",
    "ValueState",
    "Watermark",
    "WatermarkGenerator",
    "WayStep",
    "WhyResult",
    "WindowAssigner",
    "WindowContext",
    "WindowFunction",
    "WindowedStream",
    "WorkerLostError",
    "agg",
    "cassandra",
    "clickhouse",
    "col",
    "collect_sink",
    "collection",
    "compaction",
    "compiled",
    "connectors",
    "dataframe",
    "debug",
    "decimal",
    "delta",
    "duckdb",
    "duration",
    "evictors",
    "expiry",
    "files",
    "fork",
    "formats",
    "generator",
    "hbase",
    "http",
    "hybrid",
    "iceberg",
    "kafka",
    "kinesis",
    "lancedb",
    "lit",
    "load_once",
    "lookup_table",
    "migrate",
    "ml",
    "mongodb",
    "mqtt",
    "mysql",
    "nats",
    "new_savepoint",
    "opensearch",
    "pattern",
    "postgres",
    "print_sink",
    "pulsar",
    "query",
    "rabbitmq",
    "redis",
    "restart",
    "retry",
    "savepoint",
    "socket",
    "spark_stream",
    "sql_database",
    "sqs",
    "tables",
    "triggers",
    "why",
]
