"""A sink and its target under one rule: the kit drives the sink as the engine does, and reads the
target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

from rheos.core.connectors import sink_capabilities
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.protocol.ids import Attempt, JobId
from rheos.runtimes.host.io import InlineIo
from rheos.runtimes.simulated.clock import SimClock
from rheos.testing.connector_kit.rules import Row, broken, sent, some_of
from rheos.testing.connector_kit.sink_capability_rules import PreparedSink

ReadTarget: TypeAlias = Callable[[], pa.Table | Iterable[Row]]
MakeSink: TypeAlias = Callable[[str, pa.Schema], tuple[Sink, ReadTarget]]

_OPERATOR = "sink"


class SinkTarget:
    """A sink with a new target. Each violation is reported as a breach of `rule`."""

    def __init__(self, make: MakeSink, name: str, schema: pa.Schema, folder: str, rule: str) -> None:
        self.sink, self._read = make(name, schema)
        self._schema = schema
        self._folder = f"{folder}/{name}"
        self._rule = rule
        self._prepared: dict[str, Sink] = {}
        self._writers: list[tuple[SinkWriter, str, Committer | None]] = []
        """Writers, each with its job and its own committer, which was requested once."""
        self.sink.validate(schema)

    def has_committer(self) -> bool:
        committer = self._of_job("job").committer()
        return committer is not None and not sink_capabilities.is_for_outages(committer)

    def check_is_sent(self) -> None:
        if not sink_capabilities.stays_in_process(self.sink):
            sent(self._of_job("job"), self._rule)

    def begin_again(self) -> None:
        """Prepare the target again, as after a failure of the job before its first checkpoint."""
        committer = self._of_job("job").committer()
        if committer is not None:
            sink_capabilities.begin_target(committer)

    def open(self, *, attempt: int = 1, subtask: int = 0, job: str = "job") -> SinkWriter:
        """Return a new writer, as on a worker."""
        writer = self._of_job(job).open(
            SinkContext(
                job=JobId(job),
                attempt=Attempt(attempt),
                operator=_OPERATOR,
                subtask=subtask,
                clock=SimClock(),
                io=InlineIo(),
                schema=self._schema,
                name=_OPERATOR,
            )
        )
        self._writers.append((writer, job, sink_capabilities.own_committer(writer)))
        return writer

    def check_declared(self) -> None:
        """Check the capabilities of the sink, a writer and the committer beyond the basic contract."""
        sink, writer = self._of_job("job"), self.open()
        PreparedSink(sink, writer, sink.committer(), self._schema).check()
        writer.close()

    def write(self, writer: SinkWriter, rows: pa.Table) -> None:
        for batch in rows.combine_chunks().to_batches():
            writer.write(batch)

    def commit(self, committables: Sequence[bytes], writer: SinkWriter | None = None) -> None:
        """Commit by the writer's own committer. If it has none, commit by a new committer of its job's
        sink, as in a recovery."""
        of_writer = (each[1:] for each in self._writers if each[0] is writer)
        job, own = next(of_writer, ("job", None))
        committer = own or self._of_job(job).committer()
        if committer is None or not committables:
            return
        if sink_capabilities.commits_on_driver(committer):
            committer = sink_capabilities.of_log(committer, "log")
        committer.commit(committables)

    def abort_stale(self, before: int, keep: Sequence[bytes]) -> None:
        committer = self._of_job("job").committer()
        assert committer is not None
        committer.abort_stale(JobId("job"), Attempt(before), keep)

    def sees(self, *rows: pa.Table, when: str) -> None:
        """Check that a reader of the target sees exactly these rows, in any order."""
        wanted = Counter(row for table in rows for row in self._words(table))
        try:
            got = Counter(self._words(self._read()))
        except pa.ArrowException as error:
            broken(self._rule, f"after {when} the target has rows that do not fit the schema: {error}")
        if got == wanted:
            return
        parts = []
        if missing := list((wanted - got).elements()):
            parts.append(f"lacks {some_of(missing)}")
        if more := list((got - wanted).elements()):
            parts.append(f"has the extra rows {some_of(more)}")
        broken(self._rule, f"after {when} the target {' and '.join(parts)}")

    def _words(self, rows: pa.Table | Iterable[Row]) -> list[str]:
        """Return the rows in a form that can be compared, independent of how they were read."""
        if isinstance(rows, pa.Table):
            rows = rows.to_pylist()
        table = pa.Table.from_pylist([dict(row) for row in rows], self._schema)
        return [repr(row) for row in table.to_pylist()]

    def _of_job(self, job: str) -> Sink:
        """Return the sink as the job's workers receive it, after its target was prepared."""
        if job not in self._prepared:
            sink = sink_capabilities.prepared(self.sink, self._schema, (job, _OPERATOR))
            folder = f"{self._folder}-{job.replace(' ', '-')}"
            sink = sink_capabilities.staged_sink(sink, folder)
            committer = sink.committer()
            if committer is not None:
                if not self._prepared:  # Other jobs come to a target that is not empty.
                    sink_capabilities.check_target(committer)
                sink_capabilities.begin_target(committer)
            stays = sink_capabilities.stays_in_process(sink)
            self._prepared[job] = sink if stays else sent(sink, self._rule)
        return self._prepared[job]
