"""The environment, in which a program is written and from which it is run."""

from __future__ import annotations

import inspect
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Unpack

from rheos.api import overrides, partial_settings
from rheos.api.program import Program
from rheos.api.program_plans import ProgramPlans
from rheos.api.resolve import resolve
from rheos.api.settings import EnvironmentArguments, Settings
from rheos.api.source_nodes import add_source, no_source
from rheos.api.sources import StreamArguments, spark_stream
from rheos.api.streams import DataStream
from rheos.connectors.spark.dataframe import dataframe_source
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import Source
from rheos.core.connectors.lookup import Lookup
from rheos.core.errors import ProgramError
from rheos.core.graph.parameters import Parameters
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.effect_checks import require_checkpoints
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId, job_slug
from rheos.core.site import call_site, located
from rheos.core.unknown_names import HintedBase
from rheos.runtimes.job import JobResult
from rheos.runtimes.job_handle import JobHandle

if TYPE_CHECKING:
    from rheos.api.time_to_live import TimeToLive
    from rheos.sql.session import SqlSession

LOGGER = logging.getLogger("rheos.results")


_Arguments = ParamSpec("_Arguments")


def _typed_as(
    arguments: Callable[_Arguments, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, _Arguments], None]]:
    """Declare to type checkers that a method takes the arguments of another callable."""
    return lambda method: method


class Environment(HintedBase):
    """A program, and the settings with which it runs.

    ```python
    env = rh.Environment(parallelism=2)
    events = env.from_source(rh.files.source("logs/*.jsonl", schema=LogEvent), name="access log")
    events.filter(col("status") >= 400).sink_to(rh.files.sink("errors/"))
    env.execute("errors")
    ```

    Its arguments are its settings: `rh.Settings` lists them with their defaults. Options of the command
    `rheos run`, and settings of its `--config`, override them.

    Args:
        parallelism: Number of subtasks of each operator.
        settings: All settings at once, for environments that share most of them. The other arguments
            override it.
        parameters: Values that the job's functions read from `ctx.parameters`, and the program from
            `env.parameters`. Those of `rheos run --param name=value` override them.
        files: Files and folders that each worker needs, by name: `ctx.file(name)` returns the path.
        arguments: Any setting by its name: `rh.Environment(2, checkpoint_dir="checkpoints")`.
    """

    _sections = ("environment",)

    @_typed_as(EnvironmentArguments)
    def __init__(
        self,
        parallelism: int | str | None = None,
        *,
        settings: Settings | None = None,
        parameters: Mapping[str, Any] | None = None,
        files: Mapping[str, str | PathLike[str]] | None = None,
        **arguments: Any,
    ) -> None:
        site = call_site()
        written: dict[str, Any] = {**arguments}
        if parallelism is not None:
            written["parallelism"] = parallelism
        base = [] if settings is None else [partial_settings.whole(settings, site)]
        program = partial_settings.from_program(written, site)
        settled = resolve(partial_settings.merge([*base, program, *overrides.current().settings], site))
        self._parallelism = settled.parallelism
        self._max_parallelism = settled.max_parallelism
        self._runtime = settled.runtime
        self._config = settled.config
        """Configuration of the jobs, without their names."""
        with located(site):
            given = Parameters({} if parameters is None else parameters)
            self._parameters = given.merged(overrides.current().parameters)
            self._files = _existing({} if files is None else files)
        self._program = Program(
            lambda graph: self._plans.to_frame(graph, self._config),
            DataStream.at,
            compiles=settled.config.compiled,
            backend=settled.config.state.backend,
        )
        self._plans = ProgramPlans(self._program, settled, self._parameters, self._files)
        self._sql: SqlSession | None = None
        if (made := overrides.current().made) is not None:
            made(self)

    @property
    def parallelism(self) -> int:
        """Number of subtasks of each operator. If the parallelism follows the load, its initial
        value."""
        return self._parallelism

    @property
    def parameters(self) -> Parameters:
        """Parameters of the environment's jobs."""
        return self._parameters

    def from_source(
        self,
        source: Source,
        watermark: Watermark | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Return a stream of a source's rows.

        ```python
        env.from_source(
            rh.files.source("logs/*.jsonl", schema=LogEvent),
            watermark=rh.Watermark.bounded_out_of_orderness("5s", on="accessed_at"),
            name="access log")
        ```

        Args:
            source: The source.
            watermark: The column with the event time, and its maximum disorder. Windows of event time
                need it.
            name: Name of the operator; by default a description of the source.
            uid: Stable id of the operator; see `DataStream.uid`.

        Returns:
            The stream.

        Raises:
            ProgramError: `source` is not a source, or the watermark does not fit it.
            SchemaError: The watermark's column does not exist or is not a time.
        """
        site = call_site()
        with located(site, name or "source"):
            if not isinstance(source, Source):
                raise no_source(source, isinstance(source, DataStream))
            if self._config.spark is None and self._config.master is None:
                # A DataFrame can only be used in its own session.
                self._config = replace(self._config, spark=capabilities.session_of(source))
            port = add_source(self._program, source, watermark, name=name, uid=uid, site=site)
            return DataStream(self._program, port)

    def from_dataframe(
        self,
        df: Any,
        event_time: str | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Return a stream of the rows of a Spark DataFrame, each once, in every runtime.

        ```python
        trips = env.from_dataframe(spark.read.parquet("trips/"), event_time="departed_at")
        ```

        In batch, Spark reads the DataFrame as a part of the job. Otherwise a Spark job first writes its
        rows below the job's checkpoint directory. A restarted job continues with these, and does not
        compute the DataFrame again.

        Args:
            df: The DataFrame.
            event_time: The column with the event time: a timestamp, a date, or a long of ms since the
                epoch. Windows need it. A DataFrame has no order, so none of its rows is late.
            name: Name of the operator.
            uid: Stable id of the operator; see `DataStream.uid`.

        Returns:
            The stream.

        Raises:
            ProgramError: `df` is not a bounded Spark DataFrame, or has no column `event_time`.
        """
        with located(call_site(), name or "from_dataframe"):
            return self.from_source(dataframe_source(df, event_time), name=name, uid=uid)

    def from_stream(
        self,
        df: Any,
        watermark: Watermark | None = None,
        name: str | None = None,
        uid: str | None = None,
        **options: Unpack[StreamArguments],
    ) -> DataStream:
        """Return a stream of the rows of a *streaming* Spark DataFrame, each exactly once.

        ```python
        orders = env.from_stream(
            spark.readStream.format("delta").table("orders"),
            watermark=rh.Watermark.bounded_out_of_orderness("1m", on="ordered_at"),
            trigger="2s")
        ```

        A query of Structured Streaming runs on the driver, next to the job. It writes each of its
        micro-batches to the job's checkpoint directory before Spark marks it as read; the job reads
        them there. A restarted job finds both, and continues. The query takes a slot in addition to the
        job's own.

        A row is late if its time is older than that of the batches *before* its own by more than the
        watermark's bound.

        Args:
            df: The streaming DataFrame.
            watermark: The event time: a timestamp, a date, or a long of ms since the epoch.
            name: Name of the operator.
            uid: Stable id of the operator; see `DataStream.uid`.
            options: The options of `rh.spark_stream`: `trigger`, `available_now`, `lanes`,
                `max_unread`, `retain`.

        Returns:
            The stream.

        Raises:
            ProgramError: `df` is not a streaming DataFrame, or the watermark does not fit it.
        """
        with located(call_site(), name or "from_stream"):
            return self.from_source(spark_stream(df, **options), watermark, name=name, uid=uid)

    # --- SQL ------------------------------------------------------------------------------------------

    def register(self, name: str, stream: DataStream | Lookup) -> None:
        """Make a stream or a lookup available to SQL queries as a table.

        A changelog becomes the table whose changes it has. Queries can only join a lookup.

        ```python
        env.register("bids", bids)
        env.register("users", rh.redis.lookup(url, key="user:{id}", schema=User))
        ```

        Args:
            name: Name of the table.
            stream: A stream without keys of this environment, or a lookup.

        Raises:
            ProgramError: `stream` is neither, or the name is taken.
        """
        with located(call_site(), "register"):
            if not isinstance(stream, DataStream | Lookup):
                raise ProgramError(
                    f"register() takes a stream, not {stream!r}",
                    hint='write env.register("bids", bids) before key_by()',
                )
            if isinstance(stream, DataStream) and stream._program is not self._program:
                raise ProgramError("register() takes streams of its own environment")
            self._sql_session().register(name, stream)

    def register_function(self, name: str, fn: Any, returns: Any = None) -> None:
        """Make a Python function available to SQL queries. Its annotations declare its types.

        ```python
        def dollars(cents: int) -> float:
            return cents / 100

        env.register_function("dollars", dollars)
        env.sql("SELECT auction, dollars(price) AS price FROM bids")
        ```

        Args:
            name: The function's name in queries.
            fn: A function of values; of columns (`pl.Series`, `pa.Array`); of expressions (`pl.Expr`);
                one that yields rows; an `rh.RichFunction`; as an aggregate, an
                `rh.AggregateFunction`; or, as a table computed from a table, an
                `rh.KeyedProcessFunction` or its class, which calls make with their arguments.
            returns: The type of its result, if no annotation declares it.

        Raises:
            ProgramError: The name is taken or not an identifier, or `fn` is not a function.
            SchemaError: The types of its arguments or of its result are not declared.
        """
        with located(call_site(), "register_function"):
            self._sql_session().register_function(name, fn, returns)

    def register_model(
        self, name: str, predictor: Any, *, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> None:
        """Make a model available to ML_PREDICT of SQL queries (docs/ml.md).

        ```python
        env.register("rides", rides)
        env.register_model("twice", lambda x: x[:, 0] * 2, inputs={"km": float}, outputs={"y": float})
        env.sql("SELECT y FROM ML_PREDICT(TABLE rides, MODEL twice, DESCRIPTOR(km))")
        ```

        Args:
            name: The model's name in queries.
            predictor: `rh.ml.Onnx`, or a function such as a fitted model's `predict`. It receives a
                matrix (rows, inputs), and returns a value for each row and output. The matrix has
                float32 with NaN for null, or objects if an input is a string.
            inputs: The types of the inputs by name, in the order of the model.
            outputs: The types of the outputs by name.

        Raises:
            ProgramError: The name is taken or not an identifier, or `predictor` is not a function.
            SchemaError: An ONNX model has other inputs or outputs.
        """
        with located(call_site(), "register_model"):
            self._sql_session().register_model(name, predictor, inputs, outputs)

    def sql(
        self, query: str, *, state_ttl: TimeToLive | None = None, dialect: str | None = None
    ) -> DataStream:
        """Return the stream of a query over registered streams (docs/sql.md).

        ```python
        env.register("bids", bids)
        dear = env.sql("SELECT auction, price / 100 AS dollars FROM bids WHERE price > 10000")
        ```

        Needs the extra `rheos[sql]`.

        Args:
            query: The SQL query.
            state_ttl: Time for which a join of all rows keeps each row, after its event time, or
                "forever". A query with such a join needs it.
            dialect: System whose meaning the query has: "spark", "flink" or "postgres". By default that
                of the last SET dialect, else Spark's.

        Returns:
            The stream of the result; a changelog if results are updated.

        Raises:
            ProgramError: The query is invalid or not supported, at its line and column.
            ConfigurationError: The extra `rheos[sql]` is not installed.
        """
        with located(call_site()):
            return self._sql_session().query(query, state_ttl, dialect)

    def explain_sql(self, query: str, *, state_ttl: TimeToLive | None = None) -> str:
        """Return the plan of a query: its logical steps, and how it would run.

        Each step has its columns and the kind of its changes (append, upsert, retract).

        ```python
        print(env.explain_sql("SELECT user, COUNT(*) AS n FROM bids GROUP BY user"))
        ```

        Args:
            query: The SQL query.
            state_ttl: As for `sql`.

        Returns:
            The plan, for people.

        Raises:
            ProgramError: The query is invalid or not supported.
        """
        with located(call_site()):
            return self._sql_session().explained(query, state_ttl)

    def sql_script(self, statements: str) -> None:
        """Run SQL statements: they declare tables and views, and add the INSERTs to the program.

        ```python
        env.sql_script('''
            CREATE TABLE hits (page STRING, n BIGINT) WITH ('connector' = 'print');
            INSERT INTO hits SELECT page, COUNT(*) FROM views GROUP BY page;
        ''')
        env.execute("hits")
        ```

        All INSERTs together are one job, which `execute` runs.

        Args:
            statements: SQL statements, separated by semicolons.

        Raises:
            ProgramError: A statement is invalid or not supported, at its line and column.
        """
        with located(call_site()):
            self._sql_session().script(statements)

    def _sql_session(self) -> SqlSession:
        if self._sql is None:
            from rheos.sql.session import SqlSession

            self._sql = SqlSession(self, self._plans.explain_query)
        return self._sql

    # --- runs -----------------------------------------------------------------------------------------

    def execute(self, name: str = "job") -> JobResult:
        """Run the program and wait for its end.

        It runs the sinks that were declared since the last `execute`, with everything upstream of them.

        ```python
        counts.collect("counts")
        result = env.execute("count events")
        ```

        Args:
            name: Name of the job. Its checkpoints and status use it.

        Returns:
            The result of the job, with its counters and collected rows.

        Raises:
            ProgramError: The program has no sinks, or cannot run in the runtime.
            RheosError: The error that ended the job.
        """
        handle = self.execute_async(name)
        try:
            with located(call_site()):
                result = handle.wait()
        except KeyboardInterrupt:
            handle.cancel()
            raise
        # `rheos run` prints the report with the operators.
        if result.status.stop_reason is not None:
            LOGGER.warning(
                "job %r stopped, and continues when it is started again: %s",
                name,
                result.status.stop_reason,
            )
        if result.dropped is not None and overrides.current().submitted is None:
            LOGGER.warning("job %r: %s", name, result.dropped)
        return result

    def execute_async(self, name: str = "job") -> JobHandle:
        """Start the program and return at once; see `execute`.

        ```python
        job = env.execute_async("count events")
        job.wait()
        ```

        Args:
            name: Name of the job.

        Returns:
            The running job.

        Raises:
            ProgramError: The program has no sinks, or cannot run in the runtime.
        """
        options = overrides.current()
        if options.capture:
            raise overrides.ProgramCapture(self, name)
        with located(call_site()):
            graph, plan, choice = self._plans.plan(name)
            config = replace(
                self._config,
                job=self._job_id(name),
                until_now=options.until_now,
                standby=options.standby,
                command=options.command_settings,
                succeeds=options.succeeds,
                succeeds_driver=options.succeeds_driver,
                keep_ms=options.keep_ms,
                origins=(
                    {} if self._sql is None or self._config.lineage is None else self._sql.origins()
                ),
            )
            if not choice.is_batch:
                require_checkpoints(plan, config.checkpoint.interval_ms)
            listener = None if options.listener is None else options.listener(name)
            handle = choice.make(self._config, options).submit(plan, config, listener)
        self._program.executed(graph)
        if options.submitted is not None:
            options.submitted(handle)
        return handle

    def explain(self, format: str = "text", name: str = "job") -> str:
        """Return a description of the program, and of the plan with which it would run.

        - "text": the operators with their columns, then the plan;
        - "plan": the chains that run in one piece, and the edges between them;
        - "mermaid": a diagram of the plan, for mermaid.js;
        - "spark": Spark's plan of a batch job. It needs a Spark session.

        ```python
        counts.collect("counts")
        print(env.explain())
        ```

        Args:
            format: One of these four.
            name: Name of the job.

        Returns:
            The description.

        Raises:
            ProgramError: The format is unknown, or the program has no sinks.
        """
        with located(call_site()):
            return self._plans.explain(format, name, self._config)

    def plan(self, name: str = "job") -> PhysicalPlan:
        """Return the physical plan, for tools that inspect a program without running it.

        ```python
        counts.collect("counts")
        plan = env.plan("count events")
        ```

        Args:
            name: Name of the job.

        Returns:
            The plan.

        Raises:
            ProgramError: The program has no sinks, or cannot run in the runtime.
        """
        with located(call_site()):
            return self._plans.plan(name)[1]

    def check_executed(self) -> None:
        """Check that no sink still waits for `execute` when a program ends without having run anything.

        Raises:
            ProgramError: A sink was declared and not run. The error has its line.
        """
        for node in self._program.graph().nodes:
            if isinstance(node.spec, SinkSpec):
                raise ProgramError(
                    "the program ended without a call of execute, so nothing was run",
                    site=node.site,
                    operator=node.name,
                    hint='end it with env.execute("name"); it may be under '
                    '`if __name__ == "__main__":`',
                )

    def _job_id(self, name: str) -> JobId:
        """Return the job's id: the same at each start if the job's log is kept, otherwise a new one."""
        slug = job_slug(name)
        return (
            slug if self._config.checkpoint_dir is not None else JobId(f"{slug}-{uuid.uuid4().hex[:8]}")
        )


def _existing(files: Mapping[str, str | PathLike[str]]) -> dict[str, str]:
    """Return the paths of files and folders, by name. Raise ProgramError if one does not exist."""
    found: dict[str, str] = {}
    for name, path in files.items():
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(f"the name of a file must be a non-empty string, not {name!r}")
        if not isinstance(path, str | PathLike):
            raise ProgramError(f"the path of the file {name!r} must be a string, not {path!r}")
        place = Path(path).expanduser().absolute()
        if not place.exists():
            raise ProgramError(
                f"the file {name!r} of the job does not exist: {place}",
                hint="pass a file or folder on this machine; Rheos ships it to the workers",
            )
        found[name] = str(place)
    return found


# Notebooks and `help` show the settings one by one.
Environment.__signature__ = inspect.signature(EnvironmentArguments)  # type: ignore[attr-defined]
