"""The environment: where a program is written, and from where it is run."""

from __future__ import annotations

import importlib
import os
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from rheos.api import overrides
from rheos.api.program import Program
from rheos.api.settings import (
    Checkpoints,
    StateChoice,
    checkpoint_config,
    positive,
    positive_ms,
    state_config,
    task_config,
)
from rheos.api.streams import DataStream
from rheos.checkpoint.config import ExponentialDelay, RestartStrategy
from rheos.connectors.contract import Source
from rheos.connectors.files.listing import absolute
from rheos.connectors.spark.dataframe import (
    DataFrameSource,
    dataframe_source,
    ordered_by,
    session_of,
)
from rheos.errors import ConfigurationError, ProgramError
from rheos.graph import render
from rheos.graph.nodes import MAIN, Graph, Input, SourceSpec, StreamType
from rheos.graph.validate import (
    check_columns,
    check_graph,
    check_parallelism,
    check_watermark,
    unbounded_sources,
)
from rheos.graph.windows import Watermark
from rheos.job import JobConfig, JobHandle, JobResult, Runtime
from rheos.operators.source import REJECTED
from rheos.plan import explain
from rheos.plan.physical import PhysicalPlan
from rheos.plan.planner import make_plan
from rheos.protocol.durations import Duration, duration_ms
from rheos.protocol.ids import JobId, job_slug
from rheos.site import call_site, located
from rheos.state.key_groups import MAX_KEY_GROUPS

RuntimeName = Literal["auto", "continuous", "batch", "simulated"]

_RUNTIMES = {
    "continuous": ("rheos.runtimes.continuous.runtime", "ContinuousRuntime"),
    "batch": ("rheos.runtimes.batch.runtime", "BatchRuntime"),
    "simulated": ("rheos.runtimes.simulated.runtime", "SimulatedRuntime"),
}

_DEFAULT_PARALLELISM = 4

_SEE_SPARK = '\nexplain(format="spark") shows what Spark makes of it.\n'


class Environment:
    """Holds a program and runs it.

    ```python
    env = rh.Environment(parallelism=2)
    events = env.from_source(rh.files.source("logs/*.jsonl", schema=LogEvent), name="access log")
    events.filter(col("status") >= 400).sink_to(rh.files.sink("errors/"))
    env.execute("errors")
    ```

    Args:
        parallelism: how many subtasks each operator has; each takes a slot of the cluster. As many as
            the machine has cores, but 4 at the most, where it is not said.
        max_parallelism: the number of key groups that state is kept in, and so the highest
            parallelism at which it can be read again. It stays the same for the life of a job.
        runtime: "continuous", "batch" or "simulated"; "auto" takes batch where every source is
            bounded, and continuous otherwise. Or a runtime itself.
        spark: a SparkSession to run on; otherwise there is one already, or one is made.
        master: a Spark master, such as "local[4]" or "spark://host:7077".
        checkpoint_dir: where checkpoints and the job's log are kept: a path or an fsspec URL. A job
            that is started again with the same name and folder goes on where it was. None takes a
            temporary folder, which goes with the job.
        checkpoint_interval: how often a checkpoint is taken; None only at the end of the input.
        checkpoint_timeout: a checkpoint that takes longer is given up.
        checkpoints: how they are taken, beyond that; see `rh.Checkpoints`.
        restart: what happens after a failure; see `rh.restart`.
        min_parallelism: a job that has lost slots for good goes on with fewer, down to this many. None
            waits until there are enough.
        state: where state is kept while the job runs: "memory", or "rocksdb" for state that outgrows
            it; a `rh.StateConfig` also says how much memory it may take, and where the files go.
        from_savepoint: the folder or URL of a savepoint, from which the job takes its state where it
            does not go on from checkpoints that it has taken since.
        allow_dropped: state of the savepoint that the program has no place for is left behind;
            otherwise the job is refused.
        batch_rows: how many rows travel together at the most.
        buffer_timeout: how long a row may wait for others to travel with: 0 sends at once, -1 only
            full batches.
        credits: how many batches a channel may have on the way.
        encrypt: encrypts what travels between subtasks.
        heartbeat_timeout: a worker that was not heard of for so long is given up, and the job goes on
            from the last checkpoint; a worker that has not heard of its driver for so long leaves.
    """

    def __init__(
        self,
        parallelism: int | None = None,
        *,
        max_parallelism: int = 128,
        runtime: RuntimeName | Runtime = "auto",
        spark: Any | None = None,
        master: str | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_interval: Duration | None = "10s",
        checkpoint_timeout: Duration = "10m",
        checkpoints: Checkpoints | None = None,
        restart: RestartStrategy | None = None,
        min_parallelism: int | None = None,
        state: StateChoice = "memory",
        from_savepoint: str | os.PathLike[str] | None = None,
        allow_dropped: bool = False,
        batch_rows: int = 16_384,
        buffer_timeout: Duration | int = "10ms",
        credits: int = 4,
        encrypt: bool = False,
        heartbeat_timeout: Duration = "15s",
    ) -> None:
        said = overrides.current()
        with located(call_site()):
            wanted = parallelism if said.parallelism is None else said.parallelism
            self._parallelism = _default_parallelism() if wanted is None else wanted
            self._max_parallelism = said.max_parallelism or max_parallelism
            check_parallelism(self._parallelism, self._max_parallelism, MAX_KEY_GROUPS)
            self._runtime = said.runtime or runtime
            if isinstance(self._runtime, str) and self._runtime not in ("auto", *_RUNTIMES):
                raise ConfigurationError(
                    f"there is no runtime {self._runtime!r}",
                    hint='write "auto", "continuous", "batch" or "simulated"',
                )
            how = _checkpoints(checkpoints, said)
            self._checkpoint = checkpoint_config(
                how,
                said.checkpoint_interval or checkpoint_interval,
                checkpoint_timeout,
                restart or ExponentialDelay(),
            )
            self._task = task_config(how, batch_rows, _buffer_timeout_us(buffer_timeout), credits)
            self._heartbeat_timeout_ms = positive_ms("heartbeat_timeout", heartbeat_timeout)
            self._state = state_config(state, said.state_backend, said.state_memory_bytes)
            self._min_parallelism = _min_parallelism(
                min_parallelism if said.min_parallelism is None else said.min_parallelism,
                self._parallelism,
            )
        folder = said.checkpoint_dir or checkpoint_dir
        self._checkpoint_dir = None if folder is None else absolute(folder)
        savepoint = said.from_savepoint or from_savepoint
        self._from_savepoint = None if savepoint is None else absolute(savepoint)
        self._allow_dropped = allow_dropped if said.allow_dropped is None else said.allow_dropped
        self._spark = spark
        self._master = said.master or master
        self._encrypt = encrypt
        self._program = Program(self._to_frame)

    @property
    def parallelism(self) -> int:
        """How many subtasks each operator has."""
        return self._parallelism

    def from_source(
        self,
        source: Source,
        watermark: Watermark | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """A stream of the source's rows.

        With a watermark it has event time, which windows need:

        ```python
        env.from_source(
            rh.files.source("logs/*.jsonl", schema=LogEvent),
            watermark=rh.Watermark.bounded_out_of_orderness("5s", on="accessed_at"),
            name="access log")
        ```
        """
        site = call_site()
        with located(site, name or "source"):
            if not isinstance(source, Source):
                raise ProgramError(
                    f"from_source() takes a source, not {source!r}",
                    hint='write env.from_source(rh.files.source("data/*.parquet"))',
                )
            check_columns(source.schema)
            if watermark is None and isinstance(source, DataFrameSource) and source.event_time:
                watermark = Watermark.monotonic(on=source.event_time)
            if watermark is not None:
                if not isinstance(watermark, Watermark):
                    raise ProgramError(
                        f"{watermark!r} is not a watermark strategy",
                        hint='write watermark=rh.Watermark.bounded_out_of_orderness("5s", on="at")',
                    )
                check_watermark(source, watermark)
                source = ordered_by(source, watermark.on)
            if self._spark is None and self._master is None:
                # What a DataFrame is made of lives in its own session.
                self._spark = session_of(source)
            record = getattr(source, "record", None)
            outputs = {MAIN: StreamType(source.schema, watermark is not None, record)}
            rejected = source.rejected_schema()
            if rejected is not None:
                outputs[REJECTED] = StreamType(rejected, event_time=False)
            node = self._program.add(
                SourceSpec(source, watermark),
                name=source.describe() if name is None else name,
                site=site,
                outputs=outputs,
                uid=uid,
            )
            return DataStream(self._program, Input(node.id))

    def from_dataframe(
        self,
        df: Any,
        event_time: str | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """A stream of a Spark DataFrame's rows, each once, in every runtime.

        With `event_time`, a column of timestamps, dates or longs of ms since the epoch, it has event
        time, which windows need. A DataFrame has no order, so no row of it is late.

        ```python
        trips = env.from_dataframe(spark.read.parquet("trips/"), event_time="departed_at")
        ```

        In batch, Spark reads the DataFrame as a part of the job. Otherwise a Spark job first writes
        its rows down, below the job's checkpoint directory: a job that is started again goes on in
        those, and does not ask the DataFrame again.
        """
        with located(call_site(), name or "from_dataframe"):
            return self.from_source(dataframe_source(df, event_time), name=name, uid=uid)

    def execute(self, name: str = "job") -> JobResult:
        """Runs the program and waits for its end. Raises the error that ended it.

        What runs are the sinks written since the last `execute`, and all that leads to them.
        """
        handle = self.execute_async(name)
        try:
            with located(call_site()):
                return handle.wait()
        except KeyboardInterrupt:
            handle.cancel()
            raise

    def execute_async(self, name: str = "job") -> JobHandle:
        """Starts the program and returns at once; see `execute`."""
        said = overrides.current()
        if said.capture:
            raise overrides.ProgramCaptured(self, name)
        with located(call_site()):
            graph, plan = self._plan(name)
            runtime = self._choose(graph)
            config = JobConfig(
                job=self._job_id(name),
                checkpoint=self._checkpoint,
                task=self._task,
                checkpoint_dir=self._checkpoint_dir,
                master=self._master,
                spark=self._spark,
                encrypt=self._encrypt,
                heartbeat_timeout_ms=self._heartbeat_timeout_ms,
                state=self._state,
                from_savepoint=self._from_savepoint,
                allow_dropped=self._allow_dropped,
                min_parallelism=self._min_parallelism,
            )
            listener = None if said.listener is None else said.listener(name)
            handle = runtime.submit(plan, config, listener)
        self._program.executed(graph)
        if said.submitted is not None:
            said.submitted(handle)
        return handle

    def explain(self, format: str = "text", name: str = "job") -> str:
        """What the program is, and how it would run.

        - "text": the operators with their columns, then the plan;
        - "plan": the chains that run in one piece, and what flows between them;
        - "mermaid": a drawing of the plan, for mermaid.js;
        - "spark": of a batch job, what Spark makes of it. This one needs a Spark session.
        """
        with located(call_site()):
            graph, plan = self._plan(name)
            runtime = self._runtime_name(graph)
            if format == "mermaid":
                return explain.mermaid(plan)
            if format == "plan":
                return explain.text(plan, runtime)
            if format == "text":
                spark = _SEE_SPARK if _is_batch(runtime) else ""
                return f"{render.text(graph)}\n{explain.text(plan, runtime)}{spark}"
            if format == "spark":
                return self._spark_plan(plan, runtime)
            raise ProgramError(
                f"format={format!r} is not known", hint='write "text", "plan", "mermaid" or "spark"'
            )

    def _spark_plan(self, plan: PhysicalPlan, runtime: str) -> str:
        if not _is_batch(runtime):
            raise ProgramError(
                f"a batch job becomes a plan of Spark's, and this program runs as {runtime}",
                hint='run it with runtime="batch", or write format="plan"',
            )
        from rheos.runtimes.batch.runtime import spark_plan

        return spark_plan(plan, JobConfig(job=JobId("explain"), master=self._master, spark=self._spark))

    def _to_frame(self, graph: Graph) -> Any:
        endless = unbounded_sources(graph)
        if endless:
            raise ProgramError(
                f"the source {endless[0].name!r} never ends, and a DataFrame holds all rows",
                hint="bound the source; or write the stream to a sink, and have Spark read from there",
            )
        if self._runtime not in ("auto", "batch"):
            raise ProgramError(
                "a stream becomes a DataFrame in the batch runtime alone, and this environment says "
                f"runtime={self._runtime_name(graph)!r}",
                hint='make the stream in rh.Environment(runtime="batch"); or write it to a sink, and '
                "have Spark read from there",
            )
        from rheos.runtimes.batch.lazily import to_dataframe
        from rheos.spark.session import get_session

        config = JobConfig(job=JobId("dataframe"), master=self._master, spark=self._spark)
        session, _ = get_session(config, self._parallelism)
        plan = self._plan_of(graph, "to_dataframe")
        return to_dataframe(session, plan, batch_rows=self._task.batch_rows)

    def plan(self, name: str = "job") -> PhysicalPlan:
        """What would run, for tools that look at a program without running it."""
        with located(call_site()):
            return self._plan(name)[1]

    def _plan(self, name: str) -> tuple[Graph, PhysicalPlan]:
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(f"the name of a job is a text that is not empty, not {name!r}")
        graph = self._program.graph()
        return graph, self._plan_of(graph, name)

    def _plan_of(self, graph: Graph, name: str) -> PhysicalPlan:
        check_graph(graph)
        return make_plan(
            graph, name=name, parallelism=self._parallelism, max_parallelism=self._max_parallelism
        )

    def _runtime_name(self, graph: Graph) -> str:
        """How the runtime is called that would run the program, and why where that was not said."""
        if not isinstance(self._runtime, str):
            return type(self._runtime).__name__
        if self._runtime != "auto":
            return self._runtime
        endless = unbounded_sources(graph)
        if endless:
            return f"continuous (as {endless[0].name!r} never ends)"
        return "batch (as every source is bounded)"

    def _choose(self, graph: Graph) -> Runtime:
        if not isinstance(self._runtime, str):
            return self._runtime
        endless = unbounded_sources(graph)
        chosen = self._runtime
        if chosen == "auto":
            chosen = "continuous" if endless else "batch"
        if chosen == "batch" and endless:
            raise ProgramError(
                "the source never ends, and the batch runtime reads all of its input",
                hint='run it with runtime="continuous", or bound the source',
            ).located(site=endless[0].site, operator=endless[0].name)
        module, runtime_class = _RUNTIMES[chosen]
        runtime: Runtime = getattr(importlib.import_module(module), runtime_class)()
        if chosen == "simulated":
            return runtime  # It lives within a call: nobody could ask it anything.
        from rheos.control.controlled import ControlledRuntime

        return ControlledRuntime(chosen, runtime)

    def _job_id(self, name: str) -> JobId:
        """The same for each start of a job whose log is kept; otherwise one of its own."""
        slug = job_slug(name)
        return slug if self._checkpoint_dir is not None else JobId(f"{slug}-{uuid.uuid4().hex[:8]}")


def _is_batch(runtime: str) -> bool:
    """Of what `_runtime_name` gives."""
    return runtime.split()[0] in ("batch", "BatchRuntime")


def _default_parallelism() -> int:
    return min(os.cpu_count() or 1, _DEFAULT_PARALLELISM)


def _checkpoints(written: Checkpoints | None, said: overrides.Overrides) -> Checkpoints:
    """What the program has, with the command's words over it."""
    told: dict[str, Any] = {
        "unaligned_after": said.unaligned_after,
        "max_concurrent": said.max_concurrent_checkpoints,
        "at_least_once": said.at_least_once,
    }
    checkpoints = Checkpoints() if written is None else written
    if not isinstance(checkpoints, Checkpoints):
        raise ConfigurationError(
            f"checkpoints={written!r} is not known", hint="write checkpoints=rh.Checkpoints(retain=3)"
        )
    return replace(checkpoints, **{name: value for name, value in told.items() if value is not None})


def _min_parallelism(least: int | None, parallelism: int) -> int | None:
    if least is not None and positive("min_parallelism", least) > parallelism:
        raise ConfigurationError(
            f"min_parallelism {least} is greater than the parallelism, which is {parallelism}",
            hint="a job goes down to it where slots are lost: give a lower one",
        )
    return least


def _buffer_timeout_us(value: Duration | int) -> int | None:
    """0 sends at once; -1 (None inside) only full buffers."""
    if value == -1:
        return None
    if value == 0:
        return 0
    if isinstance(value, str | timedelta):
        ms = duration_ms(value)
        if ms >= 0:
            return ms * 1000
    raise ConfigurationError(
        f"buffer_timeout={value!r} is not known",
        hint='write a duration such as "10ms", 0 to send at once, or -1 to send only full batches',
    )
