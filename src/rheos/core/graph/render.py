"""A program in words: its operators in the order of writing."""

from __future__ import annotations

import polars as pl

from rheos.core.aggregates import Agg
from rheos.core.connectors import capabilities
from rheos.core.graph.nodes import (
    MAIN,
    EventTimeSpec,
    ExpressionSpec,
    Graph,
    Input,
    MapBatchesSpec,
    MapSpec,
    Node,
    OwnSpec,
    ProcessSpec,
    ReduceSpec,
    RunningSpec,
    SinkSpec,
    SourceSpec,
    UnionSpec,
    WindowSpec,
)
from rheos.core.graph.row_distribution import spelled
from rheos.core.graph.types import describe
from rheos.core.graph.validate import live_nodes
from rheos.core.graph.windows import Watermark
from rheos.core.redaction import redacted


def text(graph: Graph) -> str:
    """Return each operator with its inputs, its work, its columns, and its line in the program.

    access log
      source    logs/*.jsonl; event time: accessed_at, at most 5s behind
      columns   user: string, accessed_at: timestamp[us, tz=UTC]
      written   job.py:12
    """
    live = live_nodes(graph)
    lines = ["Program"]
    for node in graph.nodes:
        unused = "" if node.id in live else "   (unused: it leads to no sink)"
        lines.append(f"  {node.name}{unused}")
        lines.extend(f"    {label:<9} {value}" for label, value in _facts(node, graph))
    return "\n".join(lines) + "\n"


def _facts(node: Node, graph: Graph) -> list[tuple[str, str]]:
    facts = []
    if node.inputs:
        facts.append(("reads", "; ".join(_spell_input(port, graph) for port in node.inputs)))
    what = summary(node)
    if what:
        facts.append(("does", what))
    if (
        isinstance(node.spec, SourceSpec)
        and (lost := capabilities.lost_by_failure(node.spec.source)) is not None
    ):
        facts.append(("loses", f"if the job fails: {lost}"))
    for tag, type in node.outputs.items():
        label = "columns" if tag == MAIN else f"{tag!r}"
        facts.append((label, describe(type.schema) or "none"))
    if node.uid is not None:
        facts.append(("uid", node.uid))
    facts.append(("written", str(node.site)))
    return facts


def _spell_input(port: Input, graph: Graph) -> str:
    name = graph.node(port.node).name
    tag = f", side output {port.tag!r}" if port.tag != MAIN else ""
    keys = f", keyed by {', '.join(port.keys)}" if port.keys else ""
    dealt = "" if port.dealt is None else f", {spelled(port.dealt)}"
    return f"{name}{tag}{keys}{', broadcast' if port.broadcast else ''}{dealt}"


def summary(node: Node) -> str:
    """Return a description of the operator's work, on one line."""
    match node.spec:
        case SourceSpec(source=source, watermark=watermark):
            kind = (
                f"reads {redacted(source.describe())} ({'bounded' if source.bounded else 'never ends'})"
            )
            if watermark is None:
                return f"{kind}; no event time"
            return f"{kind}; {_spell_watermark(watermark)}"
        case EventTimeSpec(watermark=watermark):
            return _spell_watermark(watermark)
        case ExpressionSpec(exprs=exprs):
            return ", ".join(map(spell_expression, exprs))
        case MapSpec(record=record) | ReduceSpec(record=record):
            return f"takes {_record_name(record)}"
        case MapBatchesSpec(form=form):
            return f"takes batches as {form}"
        case ProcessSpec(record=record, order=order):
            held = ", in event-time order" if order == "event_time" else ""
            return f"takes {_record_name(record)}{held}"
        case RunningSpec(aggregates=aggregates):
            return _spell_aggregates(dict(aggregates))
        case WindowSpec(window=window, lateness_ms=lateness, aggregates=aggregates, record=record):
            late = f", {lateness} ms of lateness allowed" if lateness else ""
            does = _spell_aggregates(dict(aggregates)) or f"takes {_record_name(record)}"
            return f"{window} windows{late}: {does}"
        case SinkSpec(sink=sink):
            return f"writes {redacted(sink.describe())}"
        case UnionSpec():
            return ""
        case OwnSpec() as spec:
            return spec.summary()


def _spell_watermark(watermark: Watermark) -> str:
    if watermark.on is None:
        return f"event time: {watermark.read_from}"
    unit = watermark.unit or watermark.format
    read = "" if unit is None else f" ({unit})"
    idle = f", idle after {watermark.idle_after}" if watermark.idle_after is not None else ""
    ahead = f", at most {watermark.max_ahead} ahead" if watermark.max_ahead is not None else ""
    drift = f", at most {watermark.max_drift} apart" if watermark.max_drift is not None else ""
    behind = f"at most {watermark.bound} behind"
    if watermark.when is not None:
        behind += f" the latest row with {watermark.when}"
    if watermark.generated_by is not None:
        behind = f"as {type(watermark.generated_by).__name__} says"
    return f"event time: {watermark.on}{read}, {behind}{ahead}{idle}{drift}"


def spell_expression(expr: pl.Expr) -> str:
    """An expression on one line, of a bounded length."""
    text = " ".join(str(expr).replace("dyn int: ", "").replace("dyn float: ", "").split())
    return text if len(text) <= 120 else text[:119] + "…"


def _record_name(record: type | None) -> str:
    return "named rows" if record is None else record.__name__


def _spell_aggregates(aggregates: dict[str, Agg]) -> str:
    return ", ".join(f"{name}={agg}" for name, agg in aggregates.items())
