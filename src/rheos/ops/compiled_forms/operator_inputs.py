"""Records what arrives at each operator while a program runs over taped input, in one subtask.

The program runs with interpreted functions. Sinks write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rheos.core.errors import RheosError
from rheos.core.operators.contract import Operator, Out
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.state_config import StateConfig
from rheos.core.task.outputs import Outputs
from rheos.core.task.tree import Work
from rheos.ops.debugging.deliveries import Delivery, Rows, WatermarkAdvance
from rheos.ops.forks.tape import Beginning, Tape, TapedRun, TapedSource, UntimedTree
from rheos.runtimes.host.awaited_calls import wait_for

_ROWS_AT_ONCE = 1024
"""Maximum number of rows in one poll of a source."""

_JOB = JobId("check")


@dataclass
class OperatorInputs:
    """Everything that arrived at the operators, in order."""

    deliveries: dict[OperatorId, list[Delivery]] = field(default_factory=dict)
    error: RheosError | None = None
    """Error that ended the program; None if it ended by itself."""


def operator_inputs(
    plan: PhysicalPlan, tapes: Mapping[OperatorId, Tape], folder: str
) -> OperatorInputs:
    """Run a program from the beginning to the end of its input, and return what its operators received.

    Args:
        plan: The program.
        tapes: A tape for each of its sources.
        folder: An empty folder for temporary files.

    Returns:
        The input of each operator, up to the error with which the program failed, if it failed.
    """
    found = OperatorInputs({planned.id: [] for planned in plan.operators()})
    run = _RecordedRun(plan, tapes, Beginning({}, StateConfig().without_limits(), folder), found)
    try:
        run.run()
    except RheosError as error:
        found.error = error
    finally:
        run.close()
    return found


class _RecordedRun(TapedRun):
    """A run that records the input of its operators in `inputs`."""

    def __init__(
        self,
        plan: PhysicalPlan,
        tapes: Mapping[OperatorId, Tape],
        beginning: Beginning,
        inputs: OperatorInputs,
    ) -> None:
        self._tapes = tapes
        self._inputs = inputs
        super().__init__(_JOB, plan, beginning, _ROWS_AT_ONCE)

    def _make_tree(self, chain: Chain, outputs: Outputs) -> _RecordedTree:
        return _RecordedTree(chain, self._make_operator, outputs, self._inputs)

    def _make_operator(self, planned: PlannedOperator) -> Operator:
        spec = planned.spec
        if isinstance(spec, SinkSpec):
            return _Sink(self._contexts.of(planned))
        if isinstance(spec, SourceSpec):
            source = TapedSource(spec.source, self._tapes[planned.id])
            spec = replace(spec, source=source, until_now=not source.bounded)
        return super()._make_operator(replace(planned, spec=spec.interpreted()))


class _RecordedTree(UntimedTree):
    def __init__(
        self,
        chain: Chain,
        make: Callable[[PlannedOperator], Operator],
        outputs: Outputs,
        inputs: OperatorInputs,
    ) -> None:
        super().__init__(chain, make, outputs, wait_for=wait_for)
        self._inputs = [inputs.deliveries[planned.id] for planned in chain.operators]

    def _push(self, index: int, port: int, batch: Batch) -> Work[None]:
        self._inputs[index].append(Rows(port, batch, in_flight=False))
        return super()._push(index, port, batch)

    def _rise(self, index: int, timestamp_ms: int) -> Work[None]:
        self._inputs[index].append(WatermarkAdvance(timestamp_ms))
        return super()._rise(index, timestamp_ms)


class _Sink(Operator):
    """An operator that replaces a sink, and does nothing."""

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return iter(())
