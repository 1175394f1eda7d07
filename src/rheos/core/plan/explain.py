"""Descriptions of a plan: a string, and a diagram."""

from __future__ import annotations

from typing import assert_never

from rheos.core.graph.nodes import MAIN
from rheos.core.graph.row_distribution import spelled
from rheos.core.graph.types import describe
from rheos.core.plan.physical import Chain, Edge, Exchange, PhysicalPlan, PlannedOperator, Route, ToEdge
from rheos.core.protocol.elements import SPLIT, SWM, TS, WM, visible


def text(plan: PhysicalPlan, runtime: str | None = None) -> str:
    """Return the chains, their operators with ids and columns, and the edges between them.

    Plan of 'visitors per country': 2 subtasks, 128 key groups; runtime: batch
      chain 0
        access log [source-1]
          main: country: string, accessed_at: timestamp[us, tz=UTC]; carries __ts, __wm
            -> filter
        ...
      chain 1, reads chain 0 by hash of country
    """
    with_runtime = f"; runtime: {runtime}" if runtime else ""
    lines = [
        f"Plan of {plan.name!r}: {_count(plan.parallelism, 'subtask')} of each chain, "
        f"{_count(plan.max_parallelism, 'key group')}{with_runtime}"
    ]
    edges = {edge.id: edge for edge in plan.edges}
    for chain in plan.chains:
        reads = [_spell_edge(edges[id]) for id in chain.inputs]
        narrow = "" if chain.widest is None else f", in {_count(plan.width(chain.id), 'subtask')}"
        lines.append(f"  chain {chain.id}{narrow}{', reads ' + ' and '.join(reads) if reads else ''}")
        for operator in chain.operators:
            note = f": {operator.note}" if operator.note else ""
            lines.append(f"    {operator.name} [{operator.id}]{note}")
            for tag, output in operator.outputs.items():
                columns = describe(visible(output.schema))
                label = "emits" if tag == MAIN else f"emits {tag!r}"
                lines.append(f"      {label}: {columns}{_event_time(operator, tag)}")
                lines += [
                    f"        -> {_spell_route(route, chain, plan, edges)}"
                    for route in operator.routes[tag]
                ]
    return "\n".join(lines) + "\n"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _spell_edge(edge: Edge) -> str:
    return f"{_spell_exchange(edge)}{', a feedback edge' if edge.feedback else ''}"


def _spell_exchange(edge: Edge) -> str:
    match edge.exchange:
        case Exchange.HASH:
            return f"chain {edge.source} by hash of {', '.join(edge.keys)}"
        case Exchange.FORWARD:
            return f"chain {edge.source} subtask by subtask"
        case Exchange.REBALANCE:
            return f"chain {edge.source} round-robin"
        case Exchange.BROADCAST:
            return f"all of chain {edge.source}"
        case Exchange.RESCALE:
            return f"chain {edge.source} round-robin, among opposite subtasks"
        case Exchange.CUSTOM:
            assert edge.distribution is not None
            return f"chain {edge.source} by {spelled(edge.distribution)}"
        case _:
            assert_never(edge.exchange)


def _event_time(operator: PlannedOperator, tag: str) -> str:
    hidden = [name for name in (TS, WM, SWM, SPLIT) if name in operator.outputs[tag].schema.names]
    if not hidden:
        return "; no event time"
    on = ""
    if TS not in hidden:
        return f"; no event time (carries {', '.join(hidden)})"
    if (watermark := operator.spec.stamps) is not None:
        on = f" from {watermark.read_from}"
    return f"; event time{on} (carries {', '.join(hidden)})"


def _spell_route(route: Route, chain: Chain, plan: PhysicalPlan, edges: dict[int, Edge]) -> str:
    if isinstance(route, ToEdge):
        edge = edges[route.edge]
        head = plan.chains[edge.target].operators[0].name
        how = f"by hash of {', '.join(edge.keys)}" if edge.keys else edge.exchange.value
        how += ", feedback" if edge.feedback else ""
        return f"chain {edge.target}: {head} ({how})"
    return chain.operators[route.index].name


def mermaid(plan: PhysicalPlan) -> str:
    """Return the plan as a Mermaid flowchart: a box per chain, an arrow per route."""
    edges = {edge.id: edge for edge in plan.edges}
    lines = ["flowchart LR"]
    arrows: list[str] = []
    for chain in plan.chains:
        lines.append(f'  subgraph chain{chain.id}["chain {chain.id}"]')
        for index, operator in enumerate(chain.operators):
            lines.append(f'    {_node(chain.id, index)}["{_escaped(operator.name)}"]')
        lines.append("  end")
        for index, operator in enumerate(chain.operators):
            for tag, routes in operator.routes.items():
                for route in routes:
                    labels = [] if tag == MAIN else [tag]
                    if isinstance(route, ToEdge):
                        edge = edges[route.edge]
                        target = _node(edge.target, 0)
                        if edge.keys:
                            labels.append(f"hash({', '.join(edge.keys)})")
                        elif edge.exchange is Exchange.BROADCAST:
                            labels.append(edge.exchange.value)
                    else:
                        target = _node(chain.id, route.index)
                    label = f'|"{_escaped(": ".join(labels))}"|' if labels else ""
                    arrows.append(f"  {_node(chain.id, index)} -->{label} {target}")
    return "\n".join([*lines, *arrows]) + "\n"


def _node(chain: int, index: int) -> str:
    return f"c{chain}o{index}"


def _escaped(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
