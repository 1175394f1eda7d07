"""What `rheos metrics` shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import msgspec
from rich.table import Table
from rich.text import Text

from rheos.cli.jobs import console, find, plain_table, reported, size_text, time_text
from rheos.connectors.files.listing import absolute
from rheos.core.errors import ConfigurationError
from rheos.core.metrics import figures as f
from rheos.core.metrics.figures import FIGURES, Figure, Unit
from rheos.core.metrics.history_files import HistoryView
from rheos.core.metrics.model import JobFigures, across_subtasks, figures_object
from rheos.core.protocol.accumulated import Accumulated
from rheos.core.protocol.durations import duration_text
from rheos.core.protocol.readings import Reading
from rheos.ops.control.commands import JobClient
from rheos.ops.control.job_list import stored_figures

_SHOWN_OF_HISTORY = tuple(
    figure.name for figure in (f.SOURCE_ROWS, f.RESTARTS, f.CHECKPOINT_DURATION, f.CPU, f.MEMORY)
)


def show_metrics(wanted: str, figure: str | None, as_json: bool) -> int:
    def show() -> int:
        one = None if figure is None else _figure(figure)
        figures = JobClient(find(wanted)).figures()
        if as_json:
            shown = figures_object(figures)
            if one is not None:
                shown = shown["figures"].get(one.name, {})
            print(json.dumps(shown, indent=2))
        elif one is not None:
            console().print(figure_table(one, figures))
        else:
            for table in (operators_table(figures), slots_table(figures)):
                console().print(table)
        return 0

    return reported(show)


def show_history(wanted: str, figure: str | None, directory: str | None, as_json: bool) -> int:
    def show() -> int:
        one = None if figure is None else _figure(figure)
        if directory is None:
            view = JobClient(find(wanted)).history()
        else:
            view = stored_figures(wanted, absolute(directory))
        if as_json:
            print(json.dumps(msgspec.to_builtins(view), indent=2))
        else:
            console().print(history_table(view, one))
        return 0

    return reported(show)


def history_table(view: HistoryView, figure: Figure | None) -> Table:
    """A row for each moment, the coarse ones first; a column for each series of the figure."""
    shown = _SHOWN_OF_HISTORY if figure is None else (figure.name,)
    series = sorted(
        {name for part in (view.coarse, view.fine) for name in part.series if _figure_of(name) in shown}
    )
    table = plain_table("time", "of")
    for name in series:
        table.add_column(name.replace("\t", " "), justify="right")
    for part in (view.coarse, view.fine):
        place = {name: n for n, name in enumerate(part.series)}
        for at_ms, row in zip(part.at_ms, part.values, strict=True):
            values = [row[place[name]] if name in place else None for name in series]
            cells = [_number(FIGURES[_figure_of(n)], v) for n, v in zip(series, values, strict=True)]
            table.add_row(*map(Text, [time_text(at_ms), duration_text(part.period_ms), *cells]))
    return table


def _figure_of(series: str) -> str:
    return series.partition("\t")[0]


def _figure(name: str) -> Figure:
    found = FIGURES.get(name)
    if found is None:
        near = get_close_matches(name, FIGURES) or list(FIGURES)
        raise ConfigurationError(f"there is no figure {name!r}", hint=f"name one: {', '.join(near)}")
    return found


def operators_table(figures: JobFigures) -> Table:
    """A row for each operator, over all subtasks. Times are those of its chain."""
    found = {(r.figure, r.at): r for r in across_subtasks(figures.readings)}
    chain_of = {op: chain for chain, ops in figures.chains.items() for op in ops}
    subtasks = max((len({r.at[-1] for r in figures.of(f.BUSY)}), 1))
    table = plain_table("operator")
    for heading in ("rows in", "/s", "rows out", "/s", "busy", "blocked", "lag", "state", "keys"):
        table.add_column(heading, justify="right")
    for id, name in figures.operators.items():
        cells = []
        for figure in (f.ROWS_IN, f.ROWS_OUT):
            reading = found.get((figure.name, (id,)))
            cells += [_value(figure, reading), _rate(reading)]
        for figure in (f.BUSY, f.BLOCKED):
            cells.append(_share(found.get((figure.name, (chain_of.get(id, ""),))), subtasks))
        for figure in (f.WATERMARK_LAG, f.STATE_BYTES, f.KEYS):
            cells.append(_value(figure, found.get((figure.name, (id,)))))
        table.add_row(*map(Text, [name, *cells]))
    return table


def slots_table(figures: JobFigures) -> Table:
    """A row for each subtask."""
    found = {(r.figure, r.at): r for r in figures.readings}
    columns = (f.SLOT_BUSY, f.SLOT_BLOCKED, f.CPU, f.GC_TIME, f.MEMORY, f.SYNC, f.ALIGN, f.ASYNC)
    table = plain_table("subtask")
    for heading in ("busy", "blocked", "processor", "collector", "memory", "sync", "align", "async"):
        table.add_column(heading, justify="right")
    places = {r.at for r in figures.readings if FIGURES[r.figure].scope is f.Scope.SUBTASK}
    for at in sorted(places, key=lambda at: int(at[0])):
        readings = [(figure, found.get((figure.name, at))) for figure in columns]
        cells = [
            _share(reading, 1) if figure.kind is f.Kind.COUNTER else _value(figure, reading)
            for figure, reading in readings
        ]
        table.add_row(*map(Text, [*at, *cells]))
    return table


def figure_table(figure: Figure, figures: JobFigures) -> Table:
    """A row for each reading of one figure."""
    table = plain_table(*figure.scope.labels)
    table.add_column(figure.name, justify="right")
    table.add_column("/s", justify="right")
    for reading in figures.of(figure):
        labels = _named(figure.scope.labels, reading.at, figures.operators)
        table.add_row(*map(Text, [*labels, _value(figure, reading), _rate(reading)]))
    return table


def _named(labels: Sequence[str], at: Sequence[str], operators: Mapping[str, str]) -> list[str]:
    of_operators = {"operator", "source", "sink"}
    return [
        operators.get(value, value) if label in of_operators else value
        for label, value in zip(labels, at, strict=True)
    ]


def _value(figure: Figure, reading: Reading | None) -> str:
    if reading is None:
        return ""
    value = reading.value
    if not isinstance(value, Accumulated):
        return _number(figure, value)
    if not value.buckets:
        return f"n {value.n:,}, total {value.total:,g}"
    spread = ", ".join(f"p{q * 100:g} {value.quantile(q):,.3g}" for q in (0.5, 0.99))
    return f"n {value.n:,}, {spread}"


def _number(figure: Figure, value: float | None) -> str:
    if value is None:
        return ""
    match figure.unit:
        case Unit.BYTES:
            return size_text(int(value))
        case Unit.MS:
            return duration_text(value)
        case _:
            return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _rate(reading: Reading | None) -> str:
    return "" if reading is None or reading.per_s is None else f"{reading.per_s:,.0f}"


def _share(reading: Reading | None, subtasks: int) -> str:
    """Of time: ms in a second, of so many subtasks, as a percentage."""
    if reading is None or reading.per_s is None:
        return ""
    return f"{reading.per_s / 10 / subtasks:.0f} %"
