"""Methods of `DataStream` that write or return its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rheos.api.changelog_methods import ChangelogMethods
from rheos.api.changelogs import (
    sink_of_changes,
)
from rheos.connectors.collect import CollectSink
from rheos.connectors.print import PrintSink
from rheos.core.callables import function_name
from rheos.core.connectors import sink_capabilities
from rheos.core.connectors.contract import Sink, Source
from rheos.core.connectors.sink_capabilities import CollectsRows
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.changelog import Changes
from rheos.core.graph.nodes import Node
from rheos.core.graph.validate import (
    check_width,
)
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.operators.sink import SinkSpec
from rheos.core.redaction import redacted
from rheos.core.safe_strings import shown
from rheos.core.site import call_site, located

if TYPE_CHECKING:
    from rheos.api.streams import DataStream

    pass


class SinkMethods(ChangelogMethods):
    """Methods that end a stream."""

    def sink_to(
        self,
        sink: Sink,
        name: str | None = None,
        uid: str | None = None,
        *,
        parallelism: int | None = None,
    ) -> None:
        """Write the rows to a sink.

        ```python
        counts.sink_to(rh.files.sink("out/", format="parquet"), name="counts")
        ```

        Args:
            sink: The sink.
            name: Name of the operator; by default a description of the sink.
            uid: Stable id of the operator; see `uid`.
            parallelism: Maximum number of subtasks that write. None: all of the job, or as many as the
                sink allows.

        Raises:
            ProgramError: `sink` is not a sink, cannot write these rows or changes, or allows fewer
                writers.
            SchemaError: The stream has no columns.
        """
        site = call_site()
        with located(site, name or "sink"):
            if not isinstance(sink, Sink):
                raise ProgramError(f"sink_to() takes a sink, not {shown(sink)}", hint=_hint_for(sink))
            if not self.schema.names:
                raise SchemaError("there are no columns to write, as the operator emits nothing")
            changes = self._type.changes
            if changes is not None and not sink_capabilities.takes_changes(sink):
                if parallelism is not None:
                    raise ProgramError(
                        "a changelog is written by the subtasks that emit it, so that the "
                        "changes stay in order",
                        hint="leave out parallelism",
                    )
                rows, taking = self._for_sink(sink, changes)
                rows.sink_to(taking, name, uid)
                return
            sink.validate(self.schema)
            most = sink_capabilities.most_writers(sink)
            width = most if parallelism is None else check_width(None, parallelism)
            if most is not None and width is not None and width > most:
                raise ProgramError(
                    f"{sink.describe()} allows at most {most} writing subtask(s), not {width}",
                    hint="leave out parallelism",
                )
            title = name if name is not None else redacted(sink.describe())
            self._program.add(
                SinkSpec(sink),
                name=title,
                site=site,
                inputs=(self._port,),
                outputs={},
                uid=uid,
                parallelism=width,
            )

    def print(self, name: str | None = None) -> None:
        """Print the rows, for display only; see `rh.print_sink`.

        ```python
        counts.print("counts")
        ```

        Args:
            name: Prefix of each line, and name of the operator. The default is the name of the table or
                view that a query reads, "result-N" for other queries, and for other streams the name
                of their operator.
        """
        name = self._title if name is None else name
        self.sink_to(PrintSink(self._node.name if name is None else name), name=name)

    def collect(self, name: str) -> None:
        """Bring the rows to the program's memory.

        ```python
        counts.collect("counts")
        table = env.execute("try it").collected["counts"]
        ```

        Args:
            name: Name by which `JobResult.collected` has the rows, as a pyarrow Table.

        Raises:
            ProgramError: Another stream is collected by that name.
        """
        with located(call_site(), name):
            for node in self._program.graph().nodes:
                taken = isinstance(node.spec, SinkSpec) and isinstance(node.spec.sink, CollectsRows)
                if taken and node.name == name:
                    raise ProgramError(
                        f"two streams are collected as {name!r}: this one, and the one at {node.site}",
                        hint="give each its own name",
                    )
        self.sink_to(CollectSink(), name=name)

    def to_dataframe(self) -> Any:
        """Return the rows as a Spark DataFrame, for a batch job: join, query and write it like any
        other.

        Nothing runs before Spark reads it. Each time it does, the stream's program runs as a part of
        Spark's own plan. The program's sinks are not part of it.

        ```python
        hits = counts.to_dataframe()
        hits.join(spark.table("countries"), "country").write.parquet("report/")
        ```

        Returns:
            The DataFrame.

        Raises:
            SchemaError: The stream has no columns.
            ProgramError: The program cannot run in batch, for example because a source is unbounded.
        """
        site, name = call_site(), self._node.name
        with located(site, name):
            if not self.schema.names:
                raise SchemaError("there are no columns to read, as the operator emits nothing")
            end = Node(0, "to_dataframe", None, site, SinkSpec(CollectSink()), (self._port,), {})
            return self._program.to_frame(self._program.ending_in(end))

    def _for_sink(self, sink: Sink, changes: Changes) -> tuple[DataStream, Sink]:
        taking, steps, schema = sink_of_changes(sink, changes, self.schema)
        rows = self.as_rows().transformation
        for op, exprs in steps:
            after = schema if op == "select" else rows.type.schema
            rows = rows.then(ExpressionSpec(op, tuple(exprs)), op, after)
        return rows.stream, taking


def _hint_for(given: object) -> str:
    """Return the advice for an object that is not a sink."""
    if isinstance(given, Source):
        return "a source is where rows come from: read it by env.from_source(...)"
    if callable(given):
        return f"call it: {function_name(given)}(...)"
    return 'write .sink_to(rh.files.sink("out/"))'
