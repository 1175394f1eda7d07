"""A sink and its target in one rule: driven as the engine does, and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.protocol.ids import Attempt, JobId
from rheos.runtimes.host.inline_io import InlineIo
from rheos.runtimes.simulated.clock import SimClock
from rheos.testing.connector_kit.rules import Row, broken, sent, some_of

ReadTarget: TypeAlias = Callable[[], pa.Table | Iterable[Row]]
MakeSink: TypeAlias = Callable[[str, pa.Schema], tuple[Sink, ReadTarget]]

_OPERATOR = "sink"


class SinkTarget:
    """The target is new. What is wrong is a breach of `rule`."""

    def __init__(self, make: MakeSink, name: str, schema: pa.Schema, folder: str, rule: str) -> None:
        self.sink, self._read = make(name, schema)
        self._schema = schema
        self._folder = f"{folder}/{name}"
        self._rule = rule
        self._prepared: dict[str, Sink] = {}
        self._writers: list[tuple[SinkWriter, str, Committer | None]] = []
        """With their jobs and their own committers, for which each is asked once."""
        self.sink.validate(schema)

    def has_committer(self) -> bool:
        committer = self._of_job("job").committer()
        return committer is not None and not committer.for_outages

    def check_is_sent(self) -> None:
        if not self.sink.in_process:
            sent(self._of_job("job"), self._rule)

    def begin_again(self) -> None:
        """As where a job fails before its first checkpoint."""
        committer = self._of_job("job").committer()
        if committer is not None:
            committer.begin()

    def open(self, *, attempt: int = 1, subtask: int = 0, job: str = "job") -> SinkWriter:
        """A writer on a worker."""
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
        self._writers.append((writer, job, writer.committer()))
        return writer

    def write(self, writer: SinkWriter, rows: pa.Table) -> None:
        for batch in rows.combine_chunks().to_batches():
            writer.write(batch)

    def commit(self, committables: Sequence[bytes], writer: SinkWriter | None = None) -> None:
        """By the writer's own committer if it has one, or else by a new one of its job's sink, as in
        a recovery."""
        of_writer = (each[1:] for each in self._writers if each[0] is writer)
        job, own = next(of_writer, ("job", None))
        committer = own or self._of_job(job).committer()
        if committer is None or not committables:
            return
        if committer.on_driver:
            committer = committer.of_log("log")
        committer.commit(committables)

    def abort_stale(self, before: int, keep: Sequence[bytes]) -> None:
        committer = self._of_job("job").committer()
        assert committer is not None
        committer.abort_stale(JobId("job"), Attempt(before), keep)

    def sees(self, *rows: pa.Table, when: str) -> None:
        """A reader of the target sees just these rows, in any order."""
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
            parts.append(f"has {some_of(more)} too many")
        broken(self._rule, f"after {when} the target {' and '.join(parts)}")

    def _words(self, rows: pa.Table | Iterable[Row]) -> list[str]:
        """Rows in a form that can be compared, whatever they were read as."""
        if isinstance(rows, pa.Table):
            rows = rows.to_pylist()
        table = pa.Table.from_pylist([dict(row) for row in rows], self._schema)
        return [repr(row) for row in table.to_pylist()]

    def _of_job(self, job: str) -> Sink:
        """The sink as the job's workers have it; its target is begun."""
        if job not in self._prepared:
            sink = self.sink.prepared(self._schema, (job, _OPERATOR))
            sink = sink.staged(f"{self._folder}-{job.replace(' ', '-')}")
            committer = sink.committer()
            if committer is not None:
                if not self._prepared:  # Other jobs come to a target that is not empty.
                    committer.check()
                committer.begin()
            self._prepared[job] = sink if sink.in_process else sent(sink, self._rule)
        return self._prepared[job]
