"""Sink that prints rows, for display only."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TextIO

import msgspec

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.core.connectors.contract import Sink, SinkContext, SinkWriter
from rheos.core.printable import printable, printable_json
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shown_rows import rows_values


@dataclass(frozen=True)
class PrintSink(Sink):
    """Sink that writes each row to the standard output of the process that runs the subtask, as one
    line:

    alerts[0]> {"user":7,"from":"open"}

    In the simulated runtime, this is the program's own output. In the other runtimes, it is the output
    of a Spark worker, which Spark writes to the executor's log; with a local master it appears in the
    terminal. Lines are printed as rows arrive, so after a failure some are repeated. Control characters
    are escaped as in JSON.

    `name` is printed before the subtask; by default it is the operator's name.
    """

    takes_changes = True

    name: str | None = None

    def open(self, ctx: SinkContext) -> SinkWriter:
        name = printable(self.name or ctx.name or ctx.operator)
        return _PrintWriter(f"{name}[{ctx.subtask}]> ".encode(), sys.stdout)

    def describe(self) -> str:
        return "print"


class _PrintWriter(SinkWriter):
    def __init__(self, prefix: bytes, out: TextIO) -> None:
        self._prefix = prefix
        self._out = out
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def write(self, batch: Batch) -> None:
        lines = [self._prefix + self._encoder.encode(row) for row in rows_values(batch)]
        self._out.write(printable_json(b"\n".join([*lines, b""]).decode()))
        self._out.flush()

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return []


CONNECTOR = ConnectorRegistration(
    name="print",
    title="standard output",
    module=__name__,
    sink="PrintSink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: ""},
    docs="sql.md",
)
