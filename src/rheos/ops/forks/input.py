"""The input of a fork, from the sources' positions in the checkpoint, on tapes for both programs."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from types import MappingProxyType

from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint
from rheos.core.checkpoint.restored_state import RestoredByOperator, restored_state
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import Source
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.ids import OperatorId
from rheos.core.state import format as state_format
from rheos.ops.forks.recording import Extent, reached_ms, record
from rheos.ops.forks.tape import Tape
from rheos.runtimes.driver.sources_and_sinks import sources
from rheos.runtimes.host.scratch import folder_of
from rheos.runtimes.simulated.store import MemoryStore

_AT_ONCE = 16
"""Maximum number of sources that are read at the same time."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class CheckpointInput:
    """The tapes of the running program's sources, in `tapes`, and of another program's sources if they
    differ. Their temporary folder is removed together with this object. The constructor raises
    ConfigurationError if it cannot read the input, and the sources' errors."""

    def __init__(
        self, checkpoint: CopiedCheckpoint | None, plan: PhysicalPlan, length_ms: int | None
    ) -> None:
        """Record the input from the checkpoint; None: from the beginning. It reads `length_ms` of event
        time beyond the checkpoint's; None: up to now."""
        self._state = {} if checkpoint is None else state_of(checkpoint)
        self._folder = Path(folder_of(self, "rheos-fork-"))
        self._sources = {planned.id: source for planned, source in sources(plan)}
        self._extent = None if length_ms is None else self._extent_of(length_ms)
        self.tapes: Mapping[OperatorId, Tape] = self._recorded(
            plan, [(planned, planned.id) for planned, _ in sources(plan)]
        )

    def of(
        self, plan: PhysicalPlan, renamed: Mapping[OperatorId, OperatorId] = MappingProxyType({})
    ) -> tuple[dict[OperatorId, Tape], list[str]]:
        """Return the tapes for the sources of a changed program, and notes about them. `renamed` has
        the new ids of sources by their old ids."""
        tapes: dict[OperatorId, Tape] = {}
        notes: list[str] = []
        changed: list[tuple[PlannedOperator, OperatorId]] = []
        old_ids = {new: old for old, new in renamed.items() if old in self._sources}
        for planned, source in sources(plan):
            old_id = old_ids.get(planned.id, planned.id)
            before = self._sources.get(old_id)
            if before is not None and _is_same(before, source):
                tapes[planned.id] = self.tapes[old_id]
                continue
            changed.append((planned, old_id))
            notes.append(
                f"{planned.site}: the source {planned.name!r} differs from the running program's: "
                + (
                    "it was read from its beginning"
                    if old_id not in self._state
                    else "they were read independently, at slightly different times"
                )
            )
        return {**tapes, **self._recorded(plan, changed)}, notes

    def _recorded(
        self, plan: PhysicalPlan, wanted: Sequence[tuple[PlannedOperator, OperatorId]]
    ) -> dict[OperatorId, Tape]:
        """Record sources of the plan at the same time, so that a duration passes once. After the first
        error, the other recordings end. `wanted` has each source with its id in the checkpoint."""
        first = sum(1 for _ in self._folder.iterdir())
        stop = threading.Event()

        def recorded(number: int, planned: PlannedOperator, old_id: OperatorId) -> Tape:
            folder = self._folder / str(number)
            folder.mkdir()
            restored = self._state.get(old_id, {})
            return record(planned, restored, folder, self._extent, plan.max_parallelism, stop)

        with ThreadPoolExecutor(_AT_ONCE, "rheos-recording") as pool:
            try:
                tapes = {
                    planned.id: pool.submit(recorded, number, planned, old_id)
                    for number, (planned, old_id) in enumerate(wanted, first)
                }
                done, _ = wait(tapes.values(), return_when=FIRST_EXCEPTION)
                failed = (each.exception() for each in tapes.values() if each in done)
                if (error := next(filter(None, failed), None)) is not None:
                    raise error
                return {id: tape.result() for id, tape in tapes.items()}
            finally:
                stop.set()

    def _extent_of(self, length_ms: int) -> Extent:
        reached = (reached_ms(self._state.get(id, {})) for id in self._sources)
        return Extent(min((ms for ms in reached if ms is not None), default=None), length_ms)


def state_of(
    checkpoint: CopiedCheckpoint,
    subtask: int = 0,
    parallelism: int = 1,
    widths: Mapping[OperatorId, int] = MappingProxyType({}),
) -> RestoredByOperator:
    """Return the state that a subtask of each operator restores; by default, the only subtask."""
    store = MemoryStore()
    store.files.update(checkpoint.files)
    entry = checkpoint.savepoint.entry
    return restored_state(entry, subtask, parallelism, store, state_format.decode, widths)


def _is_same(one: Source, other: Source) -> bool:
    """Return whether two programs appear to read the same source. Two program files create distinct
    classes and functions even from the same text, so this compares their descriptions. A function that
    is described only by its address counts as different."""
    alike = (one.positions(), one.describe()) == (other.positions(), other.describe())
    if (
        not alike
        or one.schema != other.schema
        or capabilities.rejected_schema_of(one) != capabilities.rejected_schema_of(other)
    ):
        return False
    return one == other or (repr(one) == repr(other) and not _ADDRESS.search(repr(one)))
