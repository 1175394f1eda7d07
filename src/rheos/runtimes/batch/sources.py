"""The sources of a batch job as DataFrames.

    a DataFrame      itself, as a part of the job's plan (`HasDataFrame`)
    Parquet files    Spark's reader (`StoresParquet`), if it reads the same as the source's own reader
                     (`parquet_footers.py`), and either a filter keeps rows from Python or there are too
                     few files for all slots
    other splits     a Spark partition for each, read by the source's own reader

No reader reads columns that nothing needs (`core/plan/pruning.py`). Spark's readers also skip rows that
the first filters drop (`pushdown.py`). Files of lines always use the source's own reader: in all
runtimes, the same decoder must decide which row is bad, and in which line.

If the order of a file's rows matters, a file is one Spark partition. It does if it decides lateness, or
an operator sees rows as they arrive. Otherwise Spark splits and combines files as it sees fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import CharType, StructField, StructType, VarcharType

from rheos.connectors.spark import versions
from rheos.core.connectors import capabilities
from rheos.core.connectors.capabilities import UnfitForSparkError
from rheos.core.connectors.contract import Source, Split
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import RowOrder
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, SPLIT, WM
from rheos.core.protocol.ids import ChainId
from rheos.runtimes.batch.parquet_footers import columns_in_files
from rheos.runtimes.batch.pushdown import PushColumn, superset_filter
from rheos.runtimes.batch.source_input import ReadBySpark, SourceInput, SparkRows, SplitInput

_HUGE = str(1 << 45)

_READING = {
    # A row that cannot be read ends the job, whatever the user's session configures.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.useV1SourceList": "parquet",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
_WHOLE_FILES = {
    # The cost of opening a file is set to a partition's maximum, so no file is split, and none share
    # one.
    "spark.sql.files.maxPartitionBytes": _HUGE,
    "spark.sql.files.openCostInBytes": _HUGE,
    "spark.sql.files.maxPartitionNum": str(2**31 - 1),
}
_GLOB = frozenset("{}[]*?\\")


@dataclass(frozen=True)
class SourceFrame:
    """The DataFrame over which the chain of a source is mapped."""

    frame: DataFrame
    feed: SourceInput
    how: str = ""
    """The reader, and if it is not Spark the reason, for `explain`."""


def source_frame(session: SparkSession, plan: PhysicalPlan, chain: Chain) -> SourceFrame:
    """Return the input of a chain whose head is a source. Of files, only footers are read. Raise
    InputError if they cannot be read."""
    head = chain.operators[0]
    assert isinstance(head.spec, SourceSpec)
    try:
        return _source_frame(session, plan, chain, head.spec)
    except RheosError as error:
        raise error.located(site=head.site, operator=head.name) from None


def shippable(chain: Chain) -> Chain:
    """Return the chain as workers receive it, without what only the driver can hold."""
    head = chain.operators[0]
    if not isinstance(head.spec, SourceSpec) or capabilities.dataframe_of(head.spec.source) is None:
        return chain
    spec = replace(head.spec, source=ReadBySpark(head.spec.source.schema))
    return replace(chain, operators=(replace(head, spec=spec), *chain.operators[1:]))


def _source_frame(
    session: SparkSession, plan: PhysicalPlan, chain: Chain, spec: SourceSpec
) -> SourceFrame:
    source = spec.source
    dataframe = capabilities.dataframe_of(source)
    if dataframe is not None:
        return _of_dataframe(session, chain, dataframe, source.schema)
    if capabilities.session_of(source) is not None:
        raise ConfigurationError(
            "a DataFrame within a hybrid source, or a Spark stream, must be staged first, "
            "which this path does not support",
            hint="combine the streams of the sources with union(...), or use another runtime; a "
            "Spark stream is staged when the job runs, with available_now=True",
        )
    splits = tuple(source.splits())
    try:
        paths = capabilities.parquet_files(source, splits)
        return _of_files(session, plan, chain, source, splits, paths)
    except UnfitForSparkError as reason:
        return _split_by_split(session, SplitInput(splits), f"read split by split: {reason}")


def _split_by_split(session: SparkSession, feed: SplitInput, how: str) -> SourceFrame:
    splits = len(feed.splits)
    return SourceFrame(session.range(0, splits, 1, max(1, splits)), feed, how)


# --- DataFrames -----------------------------------------------------------------------------------


def _of_dataframe(
    session: SparkSession, chain: Chain, frame: DataFrame, schema: pa.Schema
) -> SourceFrame:
    fields = dict(zip(schema.names, frame.schema.fields, strict=True))
    shape = _Shape(frame, schema, _needed(chain))
    pushable = [name for name, field in fields.items() if not _padded(field)]
    filtered = shape.filtered(chain, pushable)
    return shape.source_frame(session, ordered=False, how=f"a DataFrame{filtered}")


def _needed(chain: Chain) -> frozenset[str]:
    """Return the columns of the chain's source that the planner found to be needed."""
    spec = chain.operators[0].spec
    assert isinstance(spec, SourceSpec)
    return spec.columns_to_read


def _padded(field: StructField) -> bool:
    """Return whether Spark compares the column without its padding, as it does for char(n)."""
    kinds = (CharType, VarcharType)
    return isinstance(field.dataType, kinds) or "__CHAR_VARCHAR_TYPE_STRING" in field.metadata


# --- Parquet files --------------------------------------------------------------------------------


def _of_files(
    session: SparkSession,
    plan: PhysicalPlan,
    chain: Chain,
    source: Source,
    splits: tuple[Split, ...],
    paths: Sequence[str],
) -> SourceFrame:
    urls = _spark_urls(session, paths)
    widened = versions.reads_parquet_as_wider(session)
    found = columns_in_files(paths, source.schema, _needed(chain), widened=widened)
    reader = session.newSession()
    whole = _order_counts(plan, chain)
    for name, value in (_READING | (_WHOLE_FILES if whole else {})).items():
        reader.conf.set(name, value)
    if all(url.startswith("file:") for url in urls):
        # Listing many local files here is faster than starting a Spark job for it.
        reader.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", str(2**31 - 1))
    columns = [f"{_quoted(name)} {column.spark_type}" for name, column in found.items()]
    frame = reader.read.schema(", ".join(columns) or StructType()).parquet(*urls)
    read = pa.schema([source.schema.field(name) for name in found])
    shape = _Shape(frame, read, frozenset(found))
    filtered = ""
    if not _carries_wm(chain):
        # All rows decide which of them are late, so the reader must not skip any.
        as_declared = [name for name, column in found.items() if column.as_declared]
        filtered = shape.filtered(chain, as_declared)
    if found and not filtered and (whole or len(paths) >= session.sparkContext.defaultParallelism):
        # If all rows went to Python, Spark would first convert them to its own rows, which takes three
        # times as long as reading them in Python.
        how = f"Parquet, read directly by the tasks: columns {', '.join(found)}"
        return _split_by_split(session, SplitInput(splits), how)
    how = f"Parquet, read by Spark {'in whole files' if whole else 'in parts of files'}{filtered}"
    return shape.source_frame(session, ordered=whole, how=how)


def _spark_urls(session: SparkSession, paths: Sequence[str]) -> list[str]:
    """Return the paths as Spark's file systems accept them. Raise UnfitForSparkError if they do not."""
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        if _GLOB.intersection(path) or name[:1] in ("_", ".") or "::" in path:
            raise UnfitForSparkError(f"Spark interprets the name {path} as other files")
    urls = [path if "://" in path else f"file://{path}" for path in paths]
    hadoop: Any = session._jsc.hadoopConfiguration()
    first = {urlsplit(url)[:2]: url for url in reversed(urls)}
    for (scheme, _), url in first.items():
        if scheme != "file":
            try:
                place = session._jvm.org.apache.hadoop.fs.Path(url)
                place.getFileSystem(hadoop).getFileStatus(place)
            except Exception:
                raise UnfitForSparkError(f"Spark has no access to {scheme}://") from None
    return urls


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# --- common to all rows of Spark ------------------------------------------------------------------


class _Shape:
    """The conversion of rows that Spark reads into the form that a chain takes."""

    def __init__(self, frame: DataFrame, schema: pa.Schema, needed: frozenset[str]) -> None:
        """Begin with a frame whose columns are those of `schema`, in their order."""
        self._places = {name: f"c{place}" for place, name in enumerate(schema.names)}
        # Rename the columns by their places, since a session may ignore the case of names.
        self._frame = frame.toDF(*self._places.values())
        self._schema = schema
        self._read = tuple(name for name in schema.names if name in needed)

    def filtered(self, chain: Chain, names: Sequence[str]) -> str:
        """Omit rows that the chain's first filters drop because of values in the columns `names`."""
        columns = {
            name: PushColumn(self._schema.field(name).type, f.col(self._places[name])) for name in names
        }
        passing = superset_filter(chain, self._schema, columns)
        if passing is None:
            return ""
        spec = chain.operators[0].spec
        if (
            isinstance(spec, SourceSpec)
            and spec.watermark is not None
            and spec.watermark.on is not None
        ):
            # A row without an event time ends the job, even one that the filter would drop.
            passing |= self._untimely(spec.watermark.on)
        self._frame = self._frame.filter(passing)
        return ", filtered"

    def _untimely(self, on: str) -> Column:
        time, field = f.col(self._places[on]), self._schema.field(on)
        if pa.types.is_integer(field.type):
            return time.isNull() | (time <= MIN_TIMESTAMP_MS) | (time >= MAX_TIMESTAMP_MS)
        return time.isNull() if field.nullable else f.lit(False)

    def source_frame(self, session: SparkSession, *, ordered: bool, how: str) -> SourceFrame:
        # A batch without columns would lose its number of rows on the way to Python.
        columns = [f.col(self._places[name]) for name in self._read] or [f.lit(True)]
        frame = _transplanted(self._frame.select(columns), session)
        return SourceFrame(
            frame, SparkRows(self._read, ordered), f"{how}: columns {', '.join(self._read) or 'none'}"
        )


def _transplanted(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Return the same frame in another session, which plans and runs it."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    ours = versions.jvm_class(session, "Dataset").ofRows(session._jsparkSession, plan)
    return DataFrame(ours, session)


def _carries_wm(chain: Chain) -> bool:
    main = chain.operators[0].outputs.get(MAIN)
    return main is not None and WM in main.schema.names


def _order_counts(plan: PhysicalPlan, chain: Chain) -> bool:
    """Return whether the rows of a file must stay together and in order: if they carry `__wm` or
    `__split`, or a downstream operator sees them as they arrive."""
    main = chain.operators[0].outputs.get(MAIN)
    if _carries_wm(chain) or (main is not None and SPLIT in main.schema.names):
        return True
    reached: set[ChainId] = {chain.id}
    for edge in sorted(plan.edges, key=lambda edge: edge.target):
        if edge.source in reached:
            reached.add(edge.target)
    operators = (operator for id in reached for operator in plan.chains[id].operators)
    return any(operator.spec.row_order() is not RowOrder.NONE for operator in operators)
