"""One operator of a planned program, alone in this process, as the benchmarks of kernels run it."""

from __future__ import annotations

import rheos as rh
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.protocol.ports import TaskIo
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.simulated.io import SimIo


def opened(
    env: rh.Environment, kind: type[OperatorSpec], batch_rows: int, io: TaskIo | None = None
) -> Operator:
    """The operator of this kind, of which the program has one: open, without state, the one subtask."""
    [planned] = [each for each in env.plan().operators() if isinstance(each.spec, kind)]
    assert isinstance(planned.spec, kind)
    ctx = OperatorContext(
        job=JobId("job"),
        attempt=Attempt(1),
        operator=planned.id,
        name=planned.name,
        site=planned.site,
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        ports=planned.ports,
        outputs={MAIN: planned.outputs[MAIN]},
        clock=SystemClock(),
        io=io or SimIo.__new__(SimIo),
        batch_rows=batch_rows,
    )
    operator = planned.spec.operator(ctx)
    operator.open({})
    return operator
