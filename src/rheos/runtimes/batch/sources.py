"""Where the rows of a batch job's sources come from, as Spark sees it.

    Parquet files    Spark's reader, where it reads what the own one does (`footers.py`)
    other splits     a Spark partition for each, read by the source's own reader

Of what Spark reads, the columns that nobody needs are left out (`pruning.py`), and rows that the first
filters drop (`pushdown.py`). JSON Lines are always read by their own reader: what a bad row is, and in
which line it stands, one decoder has to decide in all runtimes.

Where the order of a file's rows counts, because lateness is decided by it or an operator sees its rows
as they come, a file is one Spark partition. Otherwise Spark cuts and joins files as it finds best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from rheos.connectors.files.listing import FileToRead
from rheos.connectors.files.source import FileSource
from rheos.errors import RheosError
from rheos.graph.nodes import MAIN, ProcessSpec, ReduceSpec, RunningSpec, SourceSpec, WindowSpec
from rheos.plan.physical import Chain, PhysicalPlan
from rheos.protocol.elements import WM
from rheos.protocol.ids import ChainId
from rheos.runtimes.batch.footers import Unfit, columns_in_files
from rheos.runtimes.batch.pruning import needed_columns
from rheos.runtimes.batch.pushdown import PushColumn, superset_filter
from rheos.runtimes.batch.source_input import SourceInput, SparkRows, SplitInput

_HUGE = str(1 << 45)

_READING = {
    # A row that cannot be read ends the job, whatever the user's session says.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.useV1SourceList": "parquet",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
_WHOLE_FILES = {
    # A file costs as much to open as a partition may hold: so none is cut, and no two share one.
    "spark.sql.files.maxPartitionBytes": _HUGE,
    "spark.sql.files.openCostInBytes": _HUGE,
    "spark.sql.files.maxPartitionNum": str(2**31 - 1),
}
_GLOB = frozenset("{}[]*?\\")


@dataclass(frozen=True)
class SourceFrame:
    """What the chain of a source is mapped over."""

    frame: DataFrame
    feed: SourceInput
    how: str = ""
    """Who reads it, and why not Spark where it does not, for `explain`."""


def source_frame(session: SparkSession, plan: PhysicalPlan, chain: Chain) -> SourceFrame:
    """The input of a chain whose head is a source; of files only footers are read yet. Raises
    InputError."""
    head = chain.operators[0]
    assert isinstance(head.spec, SourceSpec)
    try:
        return _source_frame(session, plan, chain, head.spec)
    except RheosError as error:
        raise error.located(site=head.site, operator=head.name) from None


def _source_frame(
    session: SparkSession, plan: PhysicalPlan, chain: Chain, spec: SourceSpec
) -> SourceFrame:
    splits = tuple(spec.source.splits())
    try:
        if not isinstance(spec.source, FileSource):
            raise Unfit("it is no file that Spark reads")
        files = [msgspec.msgpack.decode(split.payload, type=FileToRead) for split in splits]
        return _files_frame(session, plan, chain, spec.source, files)
    except Unfit as reason:
        frame = session.range(0, len(splits), 1, max(1, len(splits)))
        return SourceFrame(frame, SplitInput(splits), f"read split by split, since {reason}")


# --- Parquet files --------------------------------------------------------------------------------


def _files_frame(
    session: SparkSession,
    plan: PhysicalPlan,
    chain: Chain,
    source: FileSource,
    files: list[FileToRead],
) -> SourceFrame:
    if any(file.format != "parquet" for file in files):
        raise Unfit("JSON Lines have a reader of their own")
    if source.on_error != "fail":
        raise Unfit("bad rows are skipped, and their reader finds them")
    if source.replay is not None and source.replay.ratio != "max":
        raise Unfit("it is replayed at a pace")
    urls = _spark_urls(session, [file.path for file in files])
    needed = needed_columns(plan, chain)
    found = columns_in_files([file.path for file in files], source.schema, needed)
    reader = session.newSession()
    whole = _order_counts(plan, chain)
    for name, value in (_READING | (_WHOLE_FILES if whole else {})).items():
        reader.conf.set(name, value)
    if all(url.startswith("file:") for url in urls):
        # Many local files are listed at once sooner than a Spark job is started for it.
        reader.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", str(2**31 - 1))
    schema = ", ".join(f"{_quoted(name)} {column.spark_type}" for name, column in found.items())
    read = reader.read.schema(schema or StructType()).parquet(*urls)
    frame = _transplanted(read, session)
    pushable = {
        name: PushColumn(source.schema.field(name).type, _named(name))
        for name, column in found.items()
        if column.as_declared
    }
    rows = "in whole files" if whole else "cut as Spark does"
    return _shaped(
        frame, plan, chain, pushable, tuple(found), f"Parquet by Spark's reader, {rows}", whole
    )


def _spark_urls(session: SparkSession, paths: list[str]) -> list[str]:
    """The paths as Spark's file systems take them. Raises Unfit where they do not."""
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        if _GLOB.intersection(path) or name[:1] in ("_", ".") or "::" in path:
            raise Unfit(f"Spark takes the name {path} to mean other files")
    urls = [path if "://" in path else f"file://{path}" for path in paths]
    hadoop: Any = session._jsc.hadoopConfiguration()
    first = {urlsplit(url)[:2]: url for url in reversed(urls)}
    for (scheme, _), url in first.items():
        if scheme != "file":
            try:
                place = session._jvm.org.apache.hadoop.fs.Path(url)
                place.getFileSystem(hadoop).getFileStatus(place)
            except Exception:
                raise Unfit(f"Spark has no access to {scheme}://") from None
    return urls


def _transplanted(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same frame as one of another session, which plans and runs it."""
    jvm: Any = session._jvm
    plan = frame._jdf.queryExecution().analyzed()
    return DataFrame(
        jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session
    )


# --- what all of Spark's rows share ---------------------------------------------------------------


def _shaped(
    frame: DataFrame,
    plan: PhysicalPlan,
    chain: Chain,
    pushable: Mapping[str, PushColumn],
    read: tuple[str, ...],
    how: str,
    ordered: bool,
) -> SourceFrame:
    """The rows that may pass, with the columns that are read, named by their places."""
    head = chain.operators[0]
    assert isinstance(head.spec, SourceSpec)
    if not _carries_wm(chain):
        # What is late is decided by all rows, so there none may be hidden.
        passing = superset_filter(chain, head.spec.source.schema, pushable)
        if passing is not None:
            frame = frame.filter(passing)
            how += ", filtered"
    if read:
        frame = frame.select(*(_named(name).alias(f"c{i}") for i, name in enumerate(read)))
    else:
        # A batch without columns would lose the number of its rows on its way to Python.
        frame = frame.select(f.lit(True).alias("c0"))
    how += f", columns {', '.join(read) or 'none'}"
    return SourceFrame(frame, SparkRows(read, ordered), how)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _named(name: str) -> Column:
    return f.col(_quoted(name))


def _carries_wm(chain: Chain) -> bool:
    main = chain.operators[0].outputs.get(MAIN)
    return main is not None and WM in main.schema.names


def _order_counts(plan: PhysicalPlan, chain: Chain) -> bool:
    """Whether the rows of a file must come together and in its order: where they carry `__wm`, or an
    operator behind sees them as they come."""
    if _carries_wm(chain):
        return True
    reached: set[ChainId] = {chain.id}
    for edge in sorted(plan.edges, key=lambda edge: edge.target):
        if edge.source in reached:
            reached.add(edge.target)
    specs = (operator.spec for id in reached for operator in plan.chains[id].operators)
    return any(isinstance(spec, ProcessSpec | ReduceSpec | RunningSpec | WindowSpec) for spec in specs)
