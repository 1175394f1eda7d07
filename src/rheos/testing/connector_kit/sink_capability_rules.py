"""The rule for capabilities of a sink, its writers and its committer beyond the basic contract.

The other rules use most capabilities: they prepare, stage, begin and commit. This rule checks the type
of what each capability returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.core.connectors import sink_capabilities as able
from rheos.core.connectors.contract import Committer, Sink, SinkWriter
from rheos.core.errors import ProgramError
from rheos.core.protocol.shapes import TypeShape
from rheos.testing.connector_kit.rules import broken

DECLARES = "the capabilities of a sink have the types of their protocols"


@dataclass(frozen=True)
class PreparedSink:
    """A prepared sink, with a writer and a committer."""

    sink: Sink
    writer: SinkWriter
    committer: Committer | None
    schema: pa.Schema

    def check(self) -> None:
        """Raise BrokenRuleError for the first capability that returns a value of another type."""
        for protocol, (member, fits) in SINK_CAPABILITY_RULES.items():
            for each in (self.sink, self.writer, self.committer):
                if isinstance(each, protocol):
                    value = getattr(each, member)
                    shown = self._called(member, value)
                    if not fits(shown):
                        broken(DECLARES, f"{type(each).__name__}.{member} is {shown!r}")

    def _called(self, member: str, value: Any) -> Any:
        match member:
            case "target_shape" | "has_room":
                return value()
            case "of_log":
                return value("log")
            case "of_changes":
                try:
                    return value(self.schema.names[:1], "deleted")
                except ProgramError:
                    return None  # It writes by another key.
            case "collected":
                return value([])
            case _:
                return value


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_limit(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value >= 1)


def _or_none(kind: type) -> Callable[[Any], bool]:
    return lambda value: value is None or isinstance(value, kind)


SINK_CAPABILITY_RULES: Mapping[type, tuple[str, Callable[[Any], bool]]] = {
    able.PreparesTarget: ("prepared", callable),
    able.StagesOutput: ("staged", callable),
    able.WritesChanges: ("of_changes", _or_none(Sink)),
    able.TakesChanges: ("takes_changes", _is_flag),
    able.HasTargetShape: ("target_shape", _or_none(TypeShape)),
    able.LimitsWriters: ("max_parallelism", _is_limit),
    able.StaysInProcess: ("in_process", _is_flag),
    able.CollectsRows: ("collected", _or_none(pa.Table)),
    able.HasRoom: ("has_room", _is_flag),
    able.HasCommitter: ("committer", callable),
    able.CommitsOnDriver: ("on_driver", _is_flag),
    able.CommitsAfterOutages: ("for_outages", _is_flag),
    able.NumbersByLog: ("of_log", _or_none(Committer)),
    able.ChecksTarget: ("check", callable),
    able.BeginsTarget: ("begin", callable),
}
"""Member of each capability, and the type that its value must have."""
