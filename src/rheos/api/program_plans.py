"""The plans of a program: made to run it, to explain it, or as a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rheos.api.program import Program
from rheos.api.resolve import ResolvedSettings
from rheos.api.runtime_choice import RuntimeChoice, choose_runtime
from rheos.api.streams import DataStream
from rheos.connectors.collect import CollectSink
from rheos.core.errors import ProgramError
from rheos.core.graph import render
from rheos.core.graph.job_context import JobContext
from rheos.core.graph.nodes import Graph, Node
from rheos.core.graph.parameters import Parameters
from rheos.core.graph.validate import check_graph, unbounded_sources
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan import explain
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.plan.planner import make_plan
from rheos.core.protocol.ids import JobId
from rheos.core.site import call_site
from rheos.runtimes.job import JobConfig

_SEE_SPARK = '\nexplain(format="spark") shows what Spark makes of it.\n'


class ProgramPlans:
    """The plans of one program, with the settings of its environment."""

    def __init__(
        self,
        program: Program,
        settings: ResolvedSettings,
        parameters: Parameters,
        files: Mapping[str, str],
    ) -> None:
        self._program = program
        self._settings = settings
        self._parameters = parameters
        self._files = files

    def plan(self, name: str) -> tuple[Graph, PhysicalPlan, RuntimeChoice]:
        """Return the graph of a job, its plan and its runtime. Raise ProgramError if the name or the
        program is invalid."""
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(f"the name of a job must be a non-empty string, not {name!r}")
        graph = self._program.graph()
        choice = choose_runtime(self._settings.runtime, graph)
        return graph, self._plan_of(graph, name, choice), choice

    def explain(self, format: str, name: str, config: JobConfig) -> str:
        """Return a description of a job in a format; see `Environment.explain`."""
        graph, plan, choice = self.plan(name)
        if format == "mermaid":
            return explain.mermaid(plan)
        if format == "plan":
            return explain.text(plan, str(choice))
        if format == "text":
            spark = _SEE_SPARK if choice.is_batch else ""
            return f"{render.text(graph)}\n{explain.text(plan, str(choice))}{spark}"
        if format == "spark":
            return self._spark_plan(plan, choice, config)
        raise ProgramError(
            f"format={format!r} is not known", hint='write "text", "plan", "mermaid" or "spark"'
        )

    def explain_query(self, make: Callable[[], DataStream], logical: str) -> str:
        """Return a logical plan, and how the stream that `make` builds would run on its own.

        Operators that `make` adds are removed from the program afterwards.
        """
        with self._program.tried():
            port = make().transformation.port
            end = Node(0, "result", None, call_site(), SinkSpec(CollectSink()), (port,), {})
            graph = self._program.ending_in(end)
            choice = choose_runtime(self._settings.runtime, graph)
            plan = self._plan_of(graph, "explain", choice)
            return f"{logical}\n{explain.text(plan, str(choice))}"

    def to_frame(self, graph: Graph, config: JobConfig) -> Any:
        """Return a Spark DataFrame of the rows that reach the only sink of a graph."""
        endless = unbounded_sources(graph)
        if endless:
            raise ProgramError(
                f"the source {endless[0].name!r} never ends, but a DataFrame needs all rows",
                hint="bound the source; or write the stream to a sink, and read that with Spark",
            )
        choice = choose_runtime(self._settings.runtime, graph)
        if self._settings.runtime not in ("auto", "batch"):
            raise ProgramError(
                "only the batch runtime turns a stream into a DataFrame, but this environment "
                f"has runtime={str(choice)!r}",
                hint='create the stream in rh.Environment(runtime="batch"); or write it to a '
                "sink, and read that with Spark",
            )
        from rheos.runtimes.batch.lazy_dataframes import to_dataframe
        from rheos.runtimes.spark.session import get_session

        config = replace(config, job=JobId("dataframe"))
        session = get_session(config, self._settings.parallelism)
        plan = self._plan_of(graph, "to_dataframe", choice)
        return to_dataframe(
            session, plan, batch_rows=config.task.batch_rows, limits=config.state.limits
        )

    def _spark_plan(self, plan: PhysicalPlan, choice: RuntimeChoice, config: JobConfig) -> str:
        if not choice.is_batch:
            raise ProgramError(
                'format="spark" shows a Spark plan, which only a batch job has, but this '
                f"program runs as {choice}",
                hint='run it with runtime="batch", or write format="plan"',
            )
        from rheos.runtimes.batch.runtime import spark_plan

        return spark_plan(plan, replace(config, job=JobId("explain")))

    def _plan_of(self, graph: Graph, name: str, choice: RuntimeChoice) -> PhysicalPlan:
        check_graph(graph)
        return make_plan(
            graph,
            name=name,
            parallelism=self._settings.parallelism,
            max_parallelism=self._settings.max_parallelism,
            context=JobContext(name, self._parameters, self._files),
            # A batch job shuffles the state of its windows, whatever their keys, and stores none.
            two_phases=not choice.is_batch,
            stores_state=not choice.is_batch,
        )
