"""Timelines: the input of a program over time, and its expected output, in text form.

```python
def alerts(visits):
    return visits.key_by("user").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count())

testing.check_timeline(
    alerts,
    '''
    ada@0s ada@4s bob@5s
    ada@12s
    w10s                    > ada,0s,10s,2 bob,0s,10s,1
    end                     > ada,10s,20s,1
    ''',
    {"user": str, "at": datetime},
    event_time="at",
)
```

A line has steps, and after `>` all rows that they cause, in any order; without `>`, there must be none.
A step is

    ada,500@10s       a row: the values of its columns in order, and after `@` the event time
    w20s              the watermark advances to 20 s from the start
    +1m               the clock advances by a minute, and processing-time timers fire
    restart           the job fails, and resumes from a checkpoint
    end               the input ends

With several inputs or outputs, each row names its own: `rules:eu,5@0s`, `late:ada,3`.
`rheos.testing.notation` describes the notation of values. A `#` begins a comment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa

from rheos.core.errors import ProgramError
from rheos.core.site import call_site, located
from rheos.testing.notation import distance_ms, row_of, shown_row_of, tokens
from rheos.testing.outputs import OUT
from rheos.testing.program_harness import IN, START, Harness, ProgramOfStreams

_WATERMARK = re.compile(r"w-?\d[^@:,]*$")
_RESTART, _END, _GIVES = "restart", "end", ">"


@dataclass(frozen=True)
class _Rows:
    """A row, or several rows in one batch."""

    input: str
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class _Line:
    number: int
    text: str
    """Steps as written."""
    steps: Sequence[_Rows | Callable[[Harness], None]]
    wanted: Sequence[str]
    """Expected rows, each with its output. If there are several outputs, each row is written in the one
    form in which it is shown."""


def check_timeline(
    program: ProgramOfStreams,
    timeline: str,
    inputs: Any,
    *,
    event_time: str | Mapping[str, str] | None = None,
    start: datetime = START,
    parameters: Mapping[str, Any] | None = None,
    restarts: bool = True,
) -> None:
    """Run the program over a timeline and check its output against it; then run it again with a restart
    after each step, which must not change the output.

    ```python
    def counted(clicks):
        return clicks.key_by("user").running(n=rh.agg.count())

    testing.check_timeline(counted, '''
        ada,/       > ada,/,1
        ada,/buy    > ada,/buy,2
    ''', {"user": str, "page": str})
    ```

    Args:
        program: function of a stream for each input that returns a stream, or several by name.
        timeline: steps, and the expected output of each line.
        inputs: the columns of the stream, or of several by name, as `Harness` takes them.
        event_time: the column of event time, or the columns by the names of their inputs; rows have it
            after `@`, not among their values.
        start: origin of distances ("10s"), and initial processing time.
        parameters: values of `ctx.parameters` in functions.
        restarts: whether it is run with restarts, too.

    Raises:
        ProgramError: The timeline cannot be parsed.
        AssertionError: Rows are missing or in excess. The error has the actual timeline.
        RheosError: An error of the program.
    """

    def harness() -> Harness:
        return Harness(program, inputs, event_time=event_time, start=start, parameters=parameters)

    with located(call_site()):
        with harness() as plain:
            lines = [_line(*each, plain) for each in _split_lines(timeline)]
            _compare(lines, _run(plain, lines, restarts=False), "")
        if restarts:
            with harness() as restarted:
                given = _run(restarted, lines, restarts=True)
            _compare(lines, given, ", with a restart after each step")


# --- reading --------------------------------------------------------------------------------------


def _split_lines(timeline: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """Return the lines with content: their number, steps and expected rows."""
    for number, text in enumerate(timeline.splitlines(), 1):
        with _in_line(number):
            parts = tokens(text)
        at = parts.index(_GIVES) if _GIVES in parts else len(parts)
        if parts:
            yield number, parts[:at], parts[at + 1 :]


@contextmanager
def _in_line(number: int) -> Iterator[None]:
    """Add the line of the timeline to errors of the block."""
    try:
        yield
    except ProgramError as error:
        raise ProgramError(f"line {number} of the timeline: {error.what}", hint=error.hint) from None


def _line(number: int, steps: list[str], wanted: list[str], harness: Harness) -> _Line:
    with _in_line(number):
        if not steps:
            raise ProgramError(
                f"no input leads to {' '.join(wanted) or 'the output'}",
                hint="write the input before the >",
            )
        return _Line(
            number,
            " ".join(steps),
            [_step(step, harness) for step in steps],
            [_output(row, harness) for row in wanted],
        )


def _step(text: str, harness: Harness) -> _Rows | Callable[[Harness], None]:
    if text == _RESTART:
        return Harness.restart
    if text == _END:
        return Harness.end
    if text.startswith("+"):
        by = _distance(text[1:])
        return lambda of: of.advance(by)
    if harness.times and _WATERMARK.match(text):
        at = _distance(text[1:])
        return lambda of: of.watermark(at)
    name, rest = _stream(text, harness.inputs, IN)
    if name in harness.times and _WATERMARK.match(rest):
        at = _distance(rest[1:])
        return lambda of: of.watermark(at, name)
    row = _row(rest, harness.inputs[name], harness.times.get(name), harness.start)
    return _Rows(name, (row,))


def _distance(text: str) -> timedelta:
    return timedelta(milliseconds=distance_ms(text))


def _stream(text: str, known: Mapping[str, pa.Schema], main: str) -> tuple[str, str]:
    """Return the name of a row's stream, and the rest. The main stream needs no name."""
    name, colon, rest = text.partition(":")
    if colon and name in known and len(known) > 1:
        return name, rest
    if main in known:
        return main, text
    raise ProgramError(
        f"{text!r} does not name its stream",
        hint=f"put the name before it: {next(iter(known))}:{text}; the streams are {', '.join(known)}",
    )


def _row(text: str, schema: pa.Schema, on: str | None, start: datetime) -> dict[str, Any]:
    if on is None:
        return row_of(text, schema, start)
    rest, at, time = text.rpartition("@")
    if not at:
        raise ProgramError(
            f"{text!r} has no event time", hint=f"add the event time after an @: {text}@10s"
        )
    shown = pa.schema([field for field in schema if field.name != on])
    only = pa.schema([schema.field(on)])
    values = row_of(rest, shown, start) if shown.names else {}
    return {**values, **row_of(time, only, start)}


def _output(text: str, harness: Harness) -> str:
    name, rest = _stream(text, harness.outputs, OUT)
    schema = harness.outputs[name]
    return _labelled(name, shown_row_of(row_of(rest, schema, harness.start), schema, harness.start))


def _labelled(name: str, row: str) -> str:
    return row if name == OUT else f"{name}:{row}"


# --- running --------------------------------------------------------------------------------------


def _run(harness: Harness, lines: Sequence[_Line], *, restarts: bool) -> list[list[str]]:
    """Return the rows that each line has caused."""
    given = []
    for line in lines:
        for step in line.steps if restarts else _together(line.steps):
            if isinstance(step, _Rows):
                harness.give(*step.rows, to=step.input)
            else:
                step(harness)
            if restarts and step is not Harness.end:
                harness.restart()
        given.append(
            [
                _labelled(name, shown_row_of(row, schema, harness.start))
                for name, schema in harness.outputs.items()
                for row in harness.take(name)
            ]
        )
    return given


def _together(
    steps: Sequence[_Rows | Callable[[Harness], None]],
) -> Iterator[_Rows | Callable[[Harness], None]]:
    """Combine consecutive rows of one input into a batch."""
    for name, some in groupby(steps, lambda step: step.input if isinstance(step, _Rows) else None):
        if name is None:
            yield from some
        else:
            yield _Rows(
                name, tuple(row for step in some if isinstance(step, _Rows) for row in step.rows)
            )


def _compare(lines: Sequence[_Line], given: Sequence[Sequence[str]], how: str) -> None:
    wrong = []
    for line, rows in zip(lines, given, strict=True):
        wanted, got = Counter(line.wanted), Counter(rows)
        if wanted != got:
            wrong.append(f"line {line.number}: {line.text}")
            wrong += [f"    missing:       {row}" for row in (wanted - got).elements()]
            wrong += [f"    not expected:  {row}" for row in (got - wanted).elements()]
    if wrong:
        width = max(len(line.text) for line in lines)
        ran = [
            f"{line.text:{width}} > {' '.join(rows)}" if rows else line.text
            for line, rows in zip(lines, given, strict=True)
        ]
        raise AssertionError(
            "\n".join(
                [
                    f"the program returned other rows than the timeline specifies{how}",
                    *wrong,
                    "",
                    "as it ran:",
                    *ran,
                ]
            )
        )
