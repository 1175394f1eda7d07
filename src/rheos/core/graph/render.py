"""A program in words: its operators in the order of writing."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from rheos.core.aggregates import Agg
from rheos.core.connectors import capabilities
from rheos.core.graph.nodes import MAIN, Graph, Input, Node
from rheos.core.graph.row_distribution import spelled
from rheos.core.graph.types import describe
from rheos.core.graph.validate import live_nodes
from rheos.core.graph.windows import Watermark


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
    what = node.spec.summary()
    if what:
        facts.append(("does", what))
    source = node.spec.reads_from
    if source is not None and (lost := capabilities.lost_by_failure(source)) is not None:
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


def spell_watermark(watermark: Watermark) -> str:
    """Return how event time is read, and how far it may be out of order, on one line."""
    if watermark.on is None:
        return f"event time: {watermark.read_from}"
    unit = watermark.unit or watermark.format
    read = "" if unit is None else f" ({unit})"
    idle = f", idle after {watermark.idle_after}" if watermark.idle_after is not None else ""
    ahead = f", at most {watermark.max_ahead} ahead" if watermark.max_ahead is not None else ""
    drift = f", at most {watermark.max_drift} apart" if watermark.max_drift is not None else ""
    behind = f"at most {watermark.bound} late"
    if watermark.when is not None:
        behind += f" the latest row with {watermark.when}"
    if watermark.generated_by is not None:
        behind = f"as {type(watermark.generated_by).__name__} says"
    return f"event time: {watermark.on}{read}, {behind}{ahead}{idle}{drift}"


def spell_expression(expr: pl.Expr) -> str:
    """An expression on one line, of a bounded length."""
    text = " ".join(str(expr).replace("dyn int: ", "").replace("dyn float: ", "").split())
    return text if len(text) <= 120 else text[:119] + "…"


def spell_record(record: type | None) -> str:
    """Return the name of the records that a function takes."""
    return "named rows" if record is None else record.__name__


def spell_aggregates(aggregates: Mapping[str, Agg]) -> str:
    """Return aggregates by the names of their columns, on one line."""
    return ", ".join(f"{name}={agg}" for name, agg in aggregates.items())
