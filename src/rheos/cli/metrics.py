"""Output of `rheos metrics` and `rheos monitoring`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from rheos.cli.jobs import console, plain_table, reported, size_text, time_text
from rheos.cli.terminal import say_lines
from rheos.connectors.urls import absolute
from rheos.core.errors import ConfigurationError
from rheos.core.known_names import meant, names_hint
from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import METRICS, Metric, Unit
from rheos.core.metrics.history_files import HistoryView
from rheos.core.metrics.model import MetricsReport, across_subtasks, metrics_object
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.durations import duration_text
from rheos.core.protocol.readings import Reading
from rheos.ops.control.commands import JobClient
from rheos.ops.control.job_list import stored_metrics
from rheos.ops.control.running_jobs import find_running

_SHOWN_OF_HISTORY = tuple(
    metric.name for metric in (f.SOURCE_ROWS, f.RESTARTS, f.CHECKPOINT_DURATION, f.CPU, f.MEMORY)
)


def show_metrics(wanted: str, metric: str | None, as_json: bool) -> int:
    def show() -> int:
        one = None if metric is None else _metric(metric)
        metrics = JobClient(find_running(wanted)).metrics()
        if as_json:
            shown = metrics_object(metrics)
            if one is not None:
                shown = shown["metrics"].get(one.name, {})
            print(json.dumps(shown, indent=2))
        elif one is not None:
            console().print(metric_table(one, metrics))
        else:
            for table in (operators_table(metrics), slots_table(metrics)):
                console().print(table)
        return 0

    return reported(show)


def show_history(wanted: str, metric: str | None, directory: str | None, as_json: bool) -> int:
    def show() -> int:
        one = None if metric is None else _metric(metric)
        if directory is None:
            view = JobClient(find_running(wanted)).history()
        else:
            view = stored_metrics(wanted, absolute(directory))
        if as_json:
            print(json.dumps(msgspec.to_builtins(view), indent=2))
        else:
            console().print(history_table(view, one))
        return 0

    return reported(show)


def history_table(view: HistoryView, metric: Metric | None) -> Table:
    """Return a table with a row per point in time, coarse ones first, and a column per series."""
    shown = _SHOWN_OF_HISTORY if metric is None else (metric.name,)
    series = sorted(
        {name for part in (view.coarse, view.fine) for name in part.series if _metric_of(name) in shown}
    )
    table = plain_table("time", "of")
    for name in series:
        table.add_column(name.replace("\t", " "), justify="right")
    for part in (view.coarse, view.fine):
        place = {name: n for n, name in enumerate(part.series)}
        for at_ms, row in zip(part.at_ms, part.values, strict=True):
            values = [row[place[name]] if name in place else None for name in series]
            cells = [_number(METRICS[_metric_of(n)], v) for n, v in zip(series, values, strict=True)]
            table.add_row(*map(Text, [time_text(at_ms), duration_text(part.period_ms), *cells]))
    return table


def _metric_of(series: str) -> str:
    return series.partition("\t")[0]


def _metric(name: str) -> Metric:
    found = METRICS.get(name)
    if found is None:
        hint = meant(name, METRICS) or names_hint(name, METRICS, "the metrics are")
        raise ConfigurationError(f"unknown metric {name!r}", hint=hint.strip())
    return found


def operators_table(metrics: MetricsReport) -> Table:
    """Return a table with a row per operator, over all subtasks. Times are those of its chain."""
    found = {(r.metric, r.at): r for r in across_subtasks(metrics.readings)}
    chain_of = {op: chain for chain, ops in metrics.chains.items() for op in ops}
    subtasks = max((len({r.at[-1] for r in metrics.of(f.BUSY)}), 1))
    table = plain_table("operator")
    for heading in ("rows in", "/s", "rows out", "/s", "busy", "blocked", "lag", "state", "keys"):
        table.add_column(heading, justify="right")
    for id, name in metrics.operators.items():
        cells = []
        for metric in (f.ROWS_IN, f.ROWS_OUT):
            reading = found.get((metric.name, (id,)))
            cells += [_value(metric, reading), _rate(reading)]
        for metric in (f.BUSY, f.BLOCKED):
            cells.append(_share(found.get((metric.name, (chain_of.get(id, ""),))), subtasks))
        for metric in (f.WATERMARK_LAG, f.STATE_BYTES, f.KEYS):
            cells.append(_value(metric, found.get((metric.name, (id,)))))
        table.add_row(*map(Text, [name, *cells]))
    return table


def slots_table(metrics: MetricsReport) -> Table:
    """Return a table with a row per subtask."""
    found = {(r.metric, r.at): r for r in metrics.readings}
    columns = (f.SLOT_BUSY, f.SLOT_BLOCKED, f.CPU, f.GC_TIME, f.MEMORY, f.SYNC, f.ALIGN, f.ASYNC)
    table = plain_table("subtask")
    for heading in ("busy", "blocked", "processor", "collector", "memory", "sync", "align", "async"):
        table.add_column(heading, justify="right")
    places = {r.at for r in metrics.readings if METRICS[r.metric].scope is f.Scope.SUBTASK}
    for at in sorted(places, key=lambda at: int(at[0])):
        readings = [(metric, found.get((metric.name, at))) for metric in columns]
        cells = [
            _share(reading, 1) if metric.kind is f.Kind.COUNTER else _value(metric, reading)
            for metric, reading in readings
        ]
        table.add_row(*map(Text, [*at, *cells]))
    return table


def metric_table(metric: Metric, metrics: MetricsReport) -> Table:
    """Return a table with a row per reading of one metric."""
    table = plain_table(*metric.scope.labels)
    table.add_column(metric.name, justify="right")
    table.add_column("/s", justify="right")
    for reading in metrics.of(metric):
        labels = _named(metric.scope.labels, reading.at, metrics.operators)
        table.add_row(*map(Text, [*labels, _value(metric, reading), _rate(reading)]))
    return table


def _named(labels: Sequence[str], at: Sequence[str], operators: Mapping[str, str]) -> list[str]:
    of_operators = {"operator", "source", "sink"}
    return [
        operators.get(value, value) if label in of_operators else value
        for label, value in zip(labels, at, strict=True)
    ]


def _value(metric: Metric, reading: Reading | None) -> str:
    if reading is None:
        return ""
    value = reading.value
    if not isinstance(value, Accumulated):
        return _number(metric, value)
    if not value.buckets:
        return f"n {value.n:,}, total {value.total:,g}"
    spread = ", ".join(f"p{q * 100:g} {value.quantile(q):,.3g}" for q in (0.5, 0.99))
    return f"n {value.n:,}, {spread}"


def _number(metric: Metric, value: float | None) -> str:
    if value is None:
        return ""
    match metric.unit:
        case Unit.BYTES:
            return size_text(int(value))
        case Unit.MS:
            return duration_text(value)
        case _:
            return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _rate(reading: Reading | None) -> str:
    return "" if reading is None or reading.per_s is None else f"{reading.per_s:,.0f}"


def _share(reading: Reading | None, subtasks: int) -> str:
    """Return a share of time as a percentage, from a rate in ms per second over all subtasks."""
    if reading is None or reading.per_s is None:
        return ""
    return f"{reading.per_s / 10 / subtasks:.0f} %"


# --- rheos monitoring: files for Grafana and Prometheus -----------------------------------------------


def show_dashboard() -> int:
    """Print the dashboard for Grafana."""
    from rheos.ops.export.grafana import dashboard

    print(json.dumps(dashboard(), indent=2))
    return 0


def show_alerts() -> int:
    """Print the alerting rules for Prometheus."""
    from rheos.ops.export.alert_rules import rule_file

    say_lines(rule_file().rstrip())
    return 0
