"""Sink that discards rows, for measurements and tests."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.core.connectors.contract import Sink, SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId


@dataclass(frozen=True)
class BlackholeSink(Sink):
    """Sink that discards each row, also updates and deletes."""

    takes_changes = True

    def open(self, ctx: SinkContext) -> SinkWriter:
        return _BlackholeWriter()

    def describe(self) -> str:
        return "blackhole"


class _BlackholeWriter(SinkWriter):
    def write(self, batch: Batch) -> None:
        pass

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return []


CONNECTOR = ConnectorRegistration(
    name="blackhole",
    title="no output",
    module=__name__,
    sink="BlackholeSink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: ""},
    docs="sql-scripts.md",
)
