"""What `rheos` exports: the API."""

from polars import col, lit

from rheos import aggregates as agg
from rheos import connectors, formats
from rheos.api import restart
from rheos.api.environment import Environment
from rheos.api.keyed import KeyedStream
from rheos.api.settings import Checkpoints, Settings
from rheos.api.sinks import collect_sink, print_sink
from rheos.api.sources import dataframe, spark_stream
from rheos.api.streams import DataStream
from rheos.api.windowed import WindowedStream
from rheos.connectors import cassandra, files, http, kafka, opensearch, postgres, redis, socket, tables
from rheos.connectors.collection import collection
from rheos.connectors.generator import Block, generator
from rheos.connectors.hybrid import hybrid
from rheos.connectors.replay import Replay
from rheos.errors import (
    CheckpointError,
    ConfigurationError,
    FencedError,
    InputError,
    InternalError,
    JobFailedError,
    ProgramError,
    RheosError,
    SchemaError,
    StateAccessError,
    StateError,
    TransportError,
    UnavailableError,
    UnrestorableError,
    UserFunctionError,
)
from rheos.graph.functions import (
    KeyedContext,
    KeyedProcessFunction,
    TimeWindow,
    WindowContext,
    WindowFunction,
)
from rheos.graph.state import ListState, MapState, TimeToLive, ValueState
from rheos.graph.windows import Session, Sliding, Tumbling, Watermark
from rheos.job import CheckpointInfo, JobHandle, JobResult, JobState, JobStatus
from rheos.protocol.durations import duration_ms as duration
from rheos.protocol.state_config import Backend as StateBackend
from rheos.protocol.state_config import StateConfig
from rheos.savepoints import new_savepoint, savepoint

__all__ = [
    "Block",
    "CheckpointError",
    "CheckpointInfo",
    "Checkpoints",
    "ConfigurationError",
    "DataStream",
    "Environment",
    "FencedError",
    "InputError",
    "InternalError",
    "JobFailedError",
    "JobHandle",
    "JobResult",
    "JobState",
    "JobStatus",
    "KeyedContext",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListState",
    "MapState",
    "ProgramError",
    "Replay",
    "RheosError",
    "SchemaError",
    "Session",
    "Settings",
    "Sliding",
    "StateAccessError",
    "StateBackend",
    "StateConfig",
    "StateError",
    "TimeToLive",
    "TimeWindow",
    "TransportError",
    "Tumbling",
    "UnavailableError",
    "UnrestorableError",
    "UserFunctionError",
    "ValueState",
    "Watermark",
    "WindowContext",
    "WindowFunction",
    "WindowedStream",
    "agg",
    "cassandra",
    "col",
    "collect_sink",
    "collection",
    "connectors",
    "dataframe",
    "duration",
    "files",
    "formats",
    "generator",
    "http",
    "hybrid",
    "kafka",
    "lit",
    "new_savepoint",
    "opensearch",
    "postgres",
    "print_sink",
    "redis",
    "restart",
    "savepoint",
    "socket",
    "spark_stream",
    "tables",
]
