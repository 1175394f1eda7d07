"""Everything from the sources of a program to one of its sinks, which runs alone in this thread.

The caller provides the rows and the watermarks of the sources, and receives the rows of the sink. The
other operators of the program take their rows and emit nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar, assert_never

import pyarrow as pa

from rheos.core.errors import ConfigurationError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import ASKS_OUTSIDE, Operator, OperatorContext, OperatorSpec, Out
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, TS, Batch, visible
from rheos.core.protocol.ids import Attempt, ChainId, JobId, OperatorId
from rheos.core.protocol.state_config import StateConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.plan_driver import PlanDriver
from rheos.core.task.tree import OperatorTree
from rheos.ops.debugging.deliveries import Delivery, Rows, WatermarkAdvance, without_rows
from rheos.ops.debugging.key_filter import ahead_of
from rheos.ops.debugging.program_part import Deliver, PartInput, ProgramPart
from rheos.ops.debugging.recorded_lookups import RecordedLookups, UsedAnswers
from rheos.runtimes.host.scratch import folder_of
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.fed_source import FedSource
from rheos.runtimes.simulated.io import InstantIo
from rheos.runtimes.simulated.waiting import wait_for_calls

_JOB = JobId("incident")
_BATCH_ROWS = 1024
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]*")


@dataclass(frozen=True)
class SinkPath(ProgramPart):
    """A sink of a program, and all operators upstream of it, without state at the beginning."""

    plan: PhysicalPlan
    sink: PlannedOperator
    clock_ms: int
    """Wall-clock time that functions see."""
    lookups: RecordedLookups = field(default_factory=RecordedLookups, compare=False)
    """Answers of the lookups upstream of the sink."""

    @property
    def planned(self) -> PlannedOperator:
        return self.sink

    @property
    def label(self) -> str:
        return f"sink {self.sink.name!r}"

    @property
    def verbs(self) -> tuple[str, str]:
        return "receives", "does not receive"

    @cached_property
    def upstream(self) -> frozenset[OperatorId]:
        """Operators upstream of the sink.

        Raises:
            ConfigurationError: One of them queries an outside system, and is not a lookup.
        """
        found = frozenset(ahead_of(self.plan, self.sink))
        for each in self.plan.operators():
            is_outside = ASKS_OUTSIDE in each.spec.differs_elsewhere() and each.spec.looks_up is None
            if each.id in found and is_outside:
                raise ConfigurationError(
                    "the test would need the outside system that this operator queries",
                    site=each.site,
                    operator=each.name,
                    hint="make the test of one operator downstream of it: rheos debug JOB --key KEY "
                    "--operator OP --as-test FILE",
                )
        return found

    @cached_property
    def sources(self) -> Sequence[PlannedOperator]:
        """Sources upstream of the sink, in the order of the plan."""
        upstream = self.upstream
        operators = self.plan.operators()
        return [each for each in operators if each.id in upstream and isinstance(each.spec, SourceSpec)]

    @cached_property
    def inputs(self) -> Sequence[PartInput]:
        names = _names([each.name for each in self.sources])
        return [
            PartInput(name, each.outputs[MAIN].schema)
            for name, each in zip(names, self.sources, strict=True)
        ]

    @property
    def outputs(self) -> Mapping[str, pa.Schema]:
        return {MAIN: visible(self.sink.ports[0].schema)}

    @contextlib.contextmanager
    def running(self) -> Iterator[Deliver]:
        self.lookups.begin_run()
        with contextlib.closing(_PathRun(self)) as run:
            yield run.deliver
        self.lookups.check_run()

    @property
    def lookup_answers(self) -> Sequence[UsedAnswers]:
        return self.lookups.used()


def _names(sources: Sequence[str]) -> list[str]:
    """Return the name of each source in a timeline: its own, if a timeline can express it."""
    if len(sources) == 1:
        return [""]
    counts = Counter(sources)
    plain = all(counts[name] == 1 and _PLAIN_NAME.fullmatch(name) for name in sources)
    return list(sources) if plain else [f"in{number}" for number in range(len(sources))]


class _PathRun:
    """One run of a path. The creator must close it."""

    def __init__(self, path: SinkPath) -> None:
        clock = SimClock()
        clock.jump(path.clock_ms - clock.now_ms())
        self._path = path
        self._taken: list[Batch] = []
        self._fed: dict[OperatorId, FedSource] = {}
        self._contexts = OperatorContexts(
            job=_JOB,
            attempt=Attempt(1),
            max_parallelism=path.plan.max_parallelism,
            clock=clock,
            io=InstantIo(),
            batch_rows=_BATCH_ROWS,
            state=StateConfig().without_limits(),
            scratch=folder_of(self, "rheos-debug-"),
            program=path.plan.context,
        )
        plan = _path_plan(path, self._taken)
        heads = {chain.operators[0].id: chain.id for chain in plan.chains}
        self._chains: list[ChainId] = [heads[source.id] for source in path.sources]
        self._driver = PlanDriver(
            plan,
            attempt=Attempt(1),
            clock=clock,
            make_tree=lambda chain, outputs: OperatorTree(
                chain, self._make_operator, outputs, wait_for=partial(wait_for_calls, clock=clock)
            ),
            batch_rows=_BATCH_ROWS,
        )
        try:
            self._driver.open({})
        except BaseException:
            self._driver.close()
            raise

    def _make_operator(self, planned: PlannedOperator) -> Operator:
        ctx = self._contexts.of(planned)
        if not isinstance(planned.spec, SourceSpec):
            return planned.spec.operator(ctx)
        fed = self._fed[planned.id] = FedSource(ctx, planned.spec)
        return fed

    def deliver(self, delivery: Delivery) -> Iterator[Out]:
        """Pass a row to its source, or a watermark to all; yield the rows of the sink."""
        match delivery:
            case Rows(port, batch):
                self._fed[self._path.sources[port].id].rows.append(batch)
                self._read(port)
            case WatermarkAdvance(watermark_ms):
                for port, (source, input) in enumerate(
                    zip(self._path.sources, self._path.inputs, strict=True)
                ):
                    fed = self._fed[source.id]
                    if watermark_ms >= MAX_TIMESTAMP_MS:
                        fed.has_ended = True
                    if TS in input.schema.names:
                        fed.watermark_ms = max(fed.watermark_ms, watermark_ms)
                    self._read(port)
            case _:
                assert_never(delivery)
        taken, self._taken[:] = list(self._taken), []
        yield from map(Out, taken)

    def _read(self, port: int) -> None:
        chain = self._chains[port]
        while not self._driver.sources[chain].ended and self._driver.poll(chain):
            pass

    def close(self) -> None:
        self._driver.close()


def _path_plan(path: SinkPath, taken: list[Batch]) -> PhysicalPlan:
    """Return the plan with functions as they are written, and without the operators that are not on the
    path."""
    upstream = path.upstream

    def changed(planned: PlannedOperator) -> PlannedOperator:
        spec = planned.spec
        if planned.id == path.sink.id:
            return replace(planned, spec=_TakingSpec(taken))
        if planned.id not in upstream or isinstance(spec, SourceSpec):
            return replace(planned, spec=without_rows(spec))
        if spec.looks_up is not None:
            return replace(planned, spec=spec.with_lookup(path.lookups.lookup_of(planned)))
        return replace(planned, spec=spec.interpreted())

    chains = [replace(c, operators=tuple(map(changed, c.operators))) for c in path.plan.chains]
    return replace(path.plan, chains=tuple(chains))


@dataclass(frozen=True)
class _TakingSpec(OperatorSpec):
    taken: list[Batch]

    kind: ClassVar[str] = "taking"

    def operator(self, ctx: OperatorContext) -> Operator:
        return _Taking(ctx, self.taken)


class _Taking(Operator):
    """An operator that replaces the sink, and keeps its rows."""

    def __init__(self, ctx: OperatorContext, taken: list[Batch]) -> None:
        super().__init__(ctx)
        self._taken = taken

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        self._taken.append(batch)
        return iter(())
