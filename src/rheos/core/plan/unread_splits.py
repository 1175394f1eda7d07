"""Filters on columns that are known per split: a source skips splits whose rows the program drops.

    source with folders day=1, day=2 ─ filter(day > 1 and n > 5) ─ ...
    reads day=2 only

The filter stays in its place. A source with such columns (`KnowsSplitValues`), such as files in folders
of partitions, reads no other split. Columns of which it knows bounds serve, too. A skipped split counts
as read, so a changed filter does not make a resumed job read it again.

A split is skipped as a whole. Its rows would have advanced the watermark of this split only, and all of
them are dropped. So skipping does not change which rows are late.

Every runtime uses this pass, for programs of the API and of SQL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import chain
from operator import and_, or_

import polars as pl

from rheos.core.connectors import capabilities
from rheos.core.graph.expression_trees import spell_expression, tree_of
from rheos.core.graph.nodes import MAIN, Graph, Node
from rheos.core.graph.validate import live_nodes
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.source import SourceSpec


def without_unread_splits(graph: Graph) -> tuple[Graph, dict[int, str]]:
    """Return the graph in which sources know the condition for reading a split, and notes for people by
    the ids of these sources."""
    notes: dict[int, str] = {}
    live = live_nodes(graph)
    readers: dict[tuple[int, str], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.id in live:
            for input in node.inputs:
                readers[input.node, input.tag].append(node)

    def condition(of: Node, columns: frozenset[str]) -> pl.Expr | None:
        """Return a condition that holds for every row of a node that has an effect; None if any row may
        have one."""
        if any(id == of.id and tag != MAIN for id, tag in readers):
            return None
        found = [passing(reader, columns) for reader in readers[of.id, MAIN]]
        known = [each for each in found if each is not None]
        return reduce(or_, known) if known and len(known) == len(found) else None

    def passing(reader: Node, columns: frozenset[str]) -> pl.Expr | None:
        spec = reader.spec
        assert isinstance(spec, OperatorSpec), f"{spec.kind} does not derive from OperatorSpec"
        if not spec.is_pure:
            return None
        parts = [
            part
            for expr in spec.predicates()
            for part in _parts(expr)
            if part.meta.root_names() and columns.issuperset(part.meta.root_names())
        ]
        same = frozenset(name for name in columns if spec.keeps_columns([name]))
        later = condition(reader, same)
        if later is not None:
            parts.append(later)
        return reduce(and_, parts) if parts else None

    def made(node: Node) -> Node:
        spec = node.spec
        if not isinstance(spec, SourceSpec) or node.id not in live:
            return node
        known = capabilities.split_columns(spec.source), capabilities.bounded_columns(spec.source)
        columns = frozenset(chain.from_iterable(known))
        only = condition(node, columns) if columns else None
        if only is None:
            return node
        notes[node.id] = f"skips splits without {spell_expression(only)}"
        return replace(node, spec=replace(spec, only=only))

    return Graph(tuple(map(made, graph.nodes))), notes


def _parts(expr: pl.Expr) -> Iterator[pl.Expr]:
    """Yield the parts of a conjunction, without those that call a user's function."""
    match tree_of(expr):
        case {"BinaryExpr": {"op": "And"}}:
            for part in expr.meta.pop():
                yield from _parts(part)
        case None:
            return
        case _:
            yield expr
