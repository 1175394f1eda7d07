"""A small picture of a job as self-contained HTML. Each chain is a box that shows how it spends its
time, and each edge shows its rows. Strings of the program are always escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import HealthState, JobHealth
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import OutlinedChain, OutlinedEdge, PlanOutline
from rheos.core.printable import printable
from rheos.runtimes.health.moment import rates, shares
from rheos.runtimes.job import JobStatus

_WIDTH, _BETWEEN, _LINE, _HEAD, _GAP = 150, 70, 16, 12, 14
_LONGEST = 24
_MOST_CHAINS = 40
_COLOURS = {"busy": "#d9822b", "held": "#b3261e", "idle": "#8a97a5"}

_HEALTH_COLOURS = {
    HealthState.HEALTHY: "#2e7d32",
    HealthState.DEGRADED: "#b26a00",
    HealthState.STUCK: "#b3261e",
    HealthState.FAILING: "#b3261e",
}


@dataclass(frozen=True)
class _Box:
    x: float
    y: float
    height: float


def picture(outline: PlanOutline, status: JobStatus, metrics: MetricsReport) -> str:
    """Return the picture of a job. If the job has ended, it shows its last state."""
    stands_out = "" if status.health is None else _health(status.health)
    return (
        f'<div style="font:13px system-ui,sans-serif"><b>{_escaped(outline.name)}</b> '
        f"{_escaped(_summary(status))}{stands_out}{_drawing(outline, metrics)}</div>"
    )


def _health(health: JobHealth) -> str:
    """Return the state, and each finding with its start and its advice."""
    found = "".join(
        f'<li>{_escaped(one.what)} (since {one.since})<br/><small style="opacity:0.75">'
        f"{_escaped(one.what_to_do)}</small></li>"
        for one in health.findings
    )
    label_text = f'<ul style="margin:4px 0 0 0">{found}</ul>' if found else ""
    colour = _HEALTH_COLOURS[health.state]
    return f' <b style="color:{colour}">{health.state.value}</b>{label_text}'


def _summary(status: JobStatus) -> str:
    failed = f" ({status.checkpoints_failed:,} failed)" if status.checkpoints_failed else ""
    return (
        f"{status.state.value} for {status.running_s:,.0f} s, {status.records_per_s:,.0f} rows/s, "
        f"checkpoints {status.checkpoints_completed:,}{failed}, restarts {status.restarts:,}"
    )


def _drawing(outline: PlanOutline, metrics: MetricsReport) -> str:
    if len(outline.chains) > _MOST_CHAINS:
        return f"<p>{len(outline.chains)} chains: see the dashboard.</p>"
    boxes = _placed(outline)
    width = max(box.x for box in boxes.values()) + _WIDTH + 4
    height = max(box.y + box.height for box in boxes.values()) + 4
    parts = [
        *(_edge(edge, boxes, metrics) for edge in outline.edges),
        *(_chain(chain, boxes[chain.id], metrics) for chain in outline.chains),
    ]
    return (
        f'<svg role="img" aria-label="the graph of the job" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="display:block;width:{width:.0f}px;max-width:100%;font-size:11px" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def _placed(outline: PlanOutline) -> Mapping[str, _Box]:
    """Return the boxes in columns. A chain's column is the length of its longest path from a source."""
    column = {chain.id: 0 for chain in outline.chains}
    for chain in outline.chains:
        for edge in outline.edges:
            if edge.target == chain.id and not edge.feedback:
                column[chain.id] = max(column[chain.id], column[edge.source] + 1)
    bottom: dict[int, float] = {}
    boxes = {}
    for chain in outline.chains:
        at = column[chain.id]
        height = _HEAD + _LINE * len(chain.operators)
        boxes[chain.id] = _Box(4 + at * (_WIDTH + _BETWEEN), bottom.get(at, 4.0), height)
        bottom[at] = bottom.get(at, 4.0) + height + _GAP
    return boxes


def _chain(chain: OutlinedChain, box: _Box, metrics: MetricsReport) -> str:
    names = "".join(
        f'<text x="{box.x + 6}" y="{box.y + _HEAD + _LINE * n + 10}">'
        f"<title>{_escaped(operator.name)}, {_escaped(operator.site)}</title>"
        f"{_escaped(_cut(operator.name))}</text>"
        for n, operator in enumerate(chain.operators)
    )
    frame = (
        f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{box.height}" rx="4" '
        'fill="none" stroke="currentColor" stroke-opacity="0.4"/>'
    )
    return frame + _time(chain.id, box, metrics) + names


def _time(chain: str, box: _Box, metrics: MetricsReport) -> str:
    """Return a bar of the shares of time that the chain was busy, blocked and idle, on average."""
    busy, held = (_mean(shares(metrics.of(metric), chain)) for metric in (f.BUSY, f.BLOCKED))
    if busy is None:
        return ""
    parts = {"busy": busy, "held": held or 0.0}
    parts["idle"] = max(0.0, 1 - sum(parts.values()))
    label_text = ", ".join(f"{name} {part:.0%}" for name, part in parts.items())
    x, bars = box.x, ""
    for name, part in parts.items():
        width = min(part, 1.0) * _WIDTH
        bars += (
            f'<rect x="{x:.1f}" y="{box.y}" width="{width:.1f}" height="5" fill="{_COLOURS[name]}"/>'
        )
        x += width
    return f"<g><title>{label_text}</title>{bars}</g>"


def _edge(edge: OutlinedEdge, boxes: Mapping[str, _Box], metrics: MetricsReport) -> str:
    start, end = boxes[edge.source], boxes[edge.target]
    from_x, from_y = start.x + _WIDTH, start.y + start.height / 2
    to_x, to_y = end.x, end.y + end.height / 2
    per_s = sum(rates(metrics.of(f.SENT_ROWS), edge.id).values())
    wide = 1 + min(8.0, 1.2 * math.log10(1 + per_s))
    bend = max((to_x - from_x) / 2, 30)
    path = (
        f"M{from_x},{from_y} C{from_x + bend},{from_y} {to_x - bend},{to_y} {to_x},{to_y}"
        if not edge.feedback
        else f"M{from_x},{from_y} C{from_x + 40},{from_y + 60} {to_x - 40},{to_y + 60} {to_x},{to_y}"
    )
    text = (
        f'<text x="{(from_x + to_x) / 2:.0f}" y="{(from_y + to_y) / 2 - 6:.0f}" text-anchor="middle" '
        f'fill-opacity="0.7">{per_s:,.0f}/s</text>'
        if per_s
        else ""
    )
    return (
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.35" '
        f'stroke-width="{wide:.1f}"/>{text}'
    )


def _mean(of_subtasks: Mapping[int, float]) -> float | None:
    return sum(of_subtasks.values()) / len(of_subtasks) if of_subtasks else None


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _escaped(text: object) -> str:
    """Return a string of the program for HTML, with invisible characters as escapes."""
    return escape(printable(str(text)))
