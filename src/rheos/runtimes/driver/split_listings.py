"""The running listings of watched sources, concurrent with the master's steps."""

from __future__ import annotations

from functools import partial

from rheos.core.checkpoint.events import Event, ListSplits, SplitsListed, SplitsNotListed
from rheos.core.errors import RheosError, unexpected
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.ports import Completion, IoExecutor
from rheos.core.protocol.splits import Split
from rheos.runtimes.driver.sources_and_sinks import discovered


class Listings:
    """One at a time of each source. A listing that hangs hangs alone, and nothing waits for it: so the
    executor has a thread for each."""

    def __init__(self, plan: PhysicalPlan, io: IoExecutor) -> None:
        self._planned = {planned.id: planned for planned in plan.operators()}
        self._io = io
        self._under_way: dict[OperatorId, Completion[tuple[Split, ...]]] = {}

    def begin(self, action: ListSplits) -> None:
        assert action.operator not in self._under_way, "CP36: one listing at a time"
        planned = self._planned[action.operator]
        self._under_way[action.operator] = self._io.submit(partial(discovered, planned))

    def poll(self) -> list[Event]:
        """Return the results of the listings that are done."""
        done = [id for id, completion in self._under_way.items() if completion.done()]
        return [self._outcome(id, self._under_way.pop(id)) for id in done]

    def _outcome(self, id: OperatorId, completion: Completion[tuple[Split, ...]]) -> Event:
        try:
            return SplitsListed(id, completion.result())
        except RheosError as error:
            return SplitsNotListed(id, error)
        except Exception as error:
            return SplitsNotListed(id, unexpected(error))
