"""Methods of `DataStream` that call a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from rheos.api.compiled_checks import automatic_form, emitted_types
from rheos.api.function_checks import (
    check_function,
    check_outputs,
    emitted_type,
    operator_name,
    side_types,
)
from rheos.api.function_typing import DeclaredOutput, declared_type, input_record, output_type
from rheos.api.stream_base import Stream
from rheos.core.callables import check_callable, function_name
from rheos.core.compiler.forms import FLAT_MAP, MAP
from rheos.core.compiler.values import EmittedType
from rheos.core.connectors.retry import Retry
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.connected_functions import ProcessFunction
from rheos.core.graph.functions import AsyncFunction
from rheos.core.graph.nodes import MAIN, Spec
from rheos.core.operators.automatic_rows import element_typing, row_typing
from rheos.core.operators.map import MapSpec
from rheos.core.operators.map_batches import MapBatchesSpec
from rheos.core.operators.plain_process import PlainProcessSpec
from rheos.core.protocol.durations import Duration
from rheos.core.site import call_site, located

if TYPE_CHECKING:
    from rheos.api.async_functions import Order
    from rheos.api.streams import DataStream


class FunctionMethods(Stream):
    """Methods that call a function for each row or batch."""

    def map(self, fn: Callable[[Any], Any], returns: Any = None) -> DataStream:
        """Make one record of each record.

        ```python
        def parse(line: Line) -> LogEvent: ...

        lines.map(parse)
        lines.map(lambda line: Word(line.text.upper()), returns=Word)
        ```

        Args:
            fn: Receives a record, and returns one. Its annotations declare both types.
            returns: The type of the results, if no annotation declares it: a dataclass, a
                pyarrow.Schema, or a dict of column names and types.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `fn` cannot be called with a record.
            SchemaError: The type of the results is not declared, or the argument's type does not fit.
        """
        return self._map("map", fn, returns, flat=False)

    def flat_map(self, fn: Callable[[Any], Any], returns: Any = None) -> DataStream:
        """Make any number of records of each record.

        ```python
        def words(line: Line) -> Iterator[Word]:
            for word in line.text.split():
                yield Word(word)

        lines.flat_map(words)
        ```

        Args:
            fn: Receives a record, and yields records or returns an iterable of them.
            returns: The type of a result, if no annotation declares it.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `fn` cannot be called with a record.
            SchemaError: The type of the results is not declared, or the argument's type does not fit.
        """
        return self._map("flat_map", fn, returns, flat=True)

    def _map(
        self, kind: Literal["map", "flat_map"], fn: Callable[[Any], Any], returns: Any, *, flat: bool
    ) -> DataStream:
        name = operator_name(kind, fn)
        with located(call_site(), name):
            check_callable(fn, kind, ["a record"], yields=flat)
            record = input_record(fn, self.schema)
            declared = output_type(fn, returns, method=kind, many=flat)
            emits, form = EmittedType(*declared), FLAT_MAP if flat else MAP
            typing = row_typing(self.schema, record, emits, form)
            automatic = automatic_form(self._at.program, fn, typing)
            spec = MapSpec(fn, flat, record, automatic=automatic)
            return self._add_operator(spec, name, declared)

    def map_batches(
        self,
        fn: Callable[[Any], Any],
        form: Literal["polars", "arrow", "pandas"] = "polars",
        returns: Any = None,
    ) -> DataStream:
        """Call a function with whole batches of rows.

        The division of rows into batches differs from run to run, so the result for a row must not
        depend on its neighbours. If the stream has event time, the function must return as many rows as
        it received.

        ```python
        def score(batch: pl.DataFrame) -> pl.DataFrame:
            return batch.with_columns(score=model.predict(batch["text"]))

        texts.map_batches(score, returns=Scored)
        ```

        Args:
            fn: Receives a batch, and returns a batch of the same kind with the columns of `returns`.
            form: The kind of a batch: a "polars" DataFrame, an "arrow" RecordBatch, or a "pandas"
                DataFrame.
            returns: The columns of the result: a dataclass, a pyarrow.Schema, or a dict of names and
                types.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `fn` cannot be called with a batch, or `form` is unknown.
            SchemaError: `returns` is missing.
        """
        name = operator_name("map_batches", fn)
        with located(call_site(), name):
            check_callable(fn, "map_batches", ["a batch"])
            if form not in ("polars", "arrow", "pandas"):
                raise ProgramError(
                    f"form={form!r} is not known", hint='write form="polars", "arrow" or "pandas"'
                )
            if returns is None:
                raise SchemaError(
                    "map_batches() cannot infer the columns that its function returns",
                    hint=f"declare them: .map_batches({function_name(fn)}, returns=Scored), where "
                    "Scored is a dataclass, a pyarrow.Schema or a dict",
                )
            declared = declared_type(returns)
            return self._add_operator(MapBatchesSpec(fn, form), name, declared)

    def process(self, fn: ProcessFunction, returns: Any = None) -> DataStream:
        """Call a function for each record, with side outputs and operator state.

        ```python
        class Sort(rh.ProcessFunction):
            side_outputs = {"bad": Line}

            def process_element(self, line: Line, ctx) -> Iterator[LogEvent]: ...

        lines.process(Sort())
        ```

        Args:
            fn: The function.
            returns: The type of the results, if the annotation of `process_element` does not declare
                it.

        Returns:
            The stream of the results; `side_output` returns the others.

        Raises:
            ProgramError: `fn` is not a ProcessFunction, or lacks `process_element`.
            SchemaError: The type of the results is not declared.
        """
        name, methods = operator_name("process", fn), ["process_element"]
        with located(call_site(), name):
            instead = "; for a plain function use .map(...) or .flat_map(...)"
            check_function(fn, ProcessFunction, methods, instead=instead)
            declared = emitted_type(fn, ProcessFunction, methods, returns)
            sides = side_types(fn)
            check_outputs(fn, declared, sides, methods[0])
            record, type = input_record(fn.process_element, self.schema), self._type
            emits = emitted_types(declared, sides)
            typing = element_typing(self.schema, record, emits, event_time=type.event_time)
            automatic = automatic_form(self._at.program, fn, typing)
            spec = PlainProcessSpec(fn, record, tuple(sides), automatic)
            outputs = {MAIN: declared, **sides}
            made = {tag: each.after(self._type) for tag, each in outputs.items()}
            return self._at.add(spec, name, made).stream

    def map_async(
        self,
        fn: Callable[[Any], Any] | AsyncFunction,
        returns: Any = None,
        *,
        capacity: int = 1000,
        timeout: Duration = "5s",
        order: Order = "ordered",
        retries: Retry | None = None,
        on_timeout: Callable[[Any], Any] | None = None,
    ) -> DataStream:
        """Make one record of each record with an `async def` function, many calls at a time.

        Use this method for calls that wait for other systems.

        ```python
        async def ask(visit: Visit) -> Enriched: ...

        visits.map_async(ask, capacity=500, timeout="2s", retries=rh.retry(3, on=ConnectionError))
        ```

        After a failure, the function is called again for rows whose results were not emitted.

        Args:
            fn: The function, or an `rh.AsyncFunction` with a client that is opened once.
            returns: The type of the results, if no annotation declares it.
            capacity: Maximum number of concurrent calls per subtask.
            timeout: Maximum time of a call, with its retries. A longer call fails the attempt, with the
                line at which it waits. The restart strategy then restarts the job.
            order: "ordered" emits results in the order of the rows; "unordered" as they complete, but
                never past a watermark.
            retries: Errors after which a call is repeated, and how often: `rh.retry(...)`. Each retry
                is counted (`retries`).
            on_timeout: Returns the result of a record whose call timed out, instead of the error. Each
                is counted (`timeouts`).

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `fn` is not an async function of a record, or an argument is invalid.
            SchemaError: The type of the results is not declared.
        """
        name = operator_name("map_async", fn)
        with located(call_site(), name):
            from rheos.api.async_functions import mapped  # It imports asyncio.

            given = (fn, returns, capacity, timeout, order, retries, on_timeout)
            spec, declared = mapped(self.schema, *given)
            return self._add_operator(spec, name, declared)

    def _add_operator(self, spec: Spec, name: str, declared: DeclaredOutput) -> DataStream:
        return self._at.then(spec, name, declared.schema, declared.record).stream
