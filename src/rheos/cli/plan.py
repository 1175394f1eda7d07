"""`rheos plan`: measures a sample of a job, and prints the machines that it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from rheos.api.overrides import Overrides
from rheos.cli.jobs import console, plain_table, size_text
from rheos.cli.terminal import report, say
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.durations import duration_ms, duration_text
from rheos.ops.planning.assumptions import changed_plan, parse_changes
from rheos.ops.planning.cost_model import CostModel
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.intervals import ExpectedRange
from rheos.ops.planning.machines import (
    EXAMPLE,
    InstanceTable,
    Machines,
    load_instances,
    machines_for,
)
from rheos.ops.planning.measurement import (
    MAX_FILE_BYTES,
    Measurement,
    decode_measurement,
    encode_measurement,
)
from rheos.ops.planning.model import CapacityPlan, PlanTarget, plan_for
from rheos.ops.planning.rates import rows_per_s


@dataclass(frozen=True)
class PlanRequest:
    """Arguments and options of the command, as they were written."""

    file: Path
    arguments: Sequence[str]
    rate: str
    latency: str | None
    busy: float
    after: str
    whatif: str | None
    instances: Path | None
    sample: str
    save: Path | None


@dataclass(frozen=True)
class _Answer:
    model: CostModel
    plans: Mapping[str, CapacityPlan]
    """The plan under the empty name, and the plan with changes under these."""
    table: InstanceTable
    is_example: bool
    notes: Sequence[str]

    def machines(self, plan: CapacityPlan) -> list[Machines]:
        return machines_for(plan, self.table.instances)


def show_plan(request: PlanRequest, settings: Overrides, *, as_json: bool) -> int:
    """Print the plan. Return the exit code, which is 0 even if no number of slots is enough."""
    try:
        answer = _answer(request, settings)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    if as_json:
        print(json.dumps(_object(answer), indent=2))
    else:
        _print(answer)
    return 0


def _answer(request: PlanRequest, settings: Overrides) -> _Answer:
    # Everything that can be refused is checked before half a minute is spent.
    rate = rows_per_s(request.rate)
    latency_ms = None if request.latency is None else float(duration_ms(request.latency))
    target = PlanTarget(rate, latency_ms, request.busy, duration_ms(request.after))
    changes = [] if request.whatif is None else parse_changes(request.whatif)
    table = EXAMPLE if request.instances is None else load_instances(request.instances)
    measurement, notes = _measured(request, settings)
    if request.save is not None:
        _write(request.save, measurement)
    model = fit(measurement)
    plans = {"": plan_for(model, target)}
    if changes:
        plans[",".join(map(str, changes))] = changed_plan(model, target, changes)
    return _Answer(model, plans, table, request.instances is None, notes)


def _measured(request: PlanRequest, settings: Overrides) -> tuple[Measurement, Sequence[str]]:
    if request.file.suffix == ".json":
        return decode_measurement(_read(request.file), str(request.file)), ()
    from rheos.ops.planning.sample_run import measure_sample

    sample = measure_sample(
        request.file,
        request.arguments,
        settings,
        duration_ms(request.sample) / 1000,
        lambda what: say(what, error=True, flush=True),
    )
    return sample.measurement, sample.notes


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"the measurement {str(file)!r} cannot be read: {error.strerror}",
            hint="write one with rheos plan job.py --save FILE",
        ) from None


def _write(file: Path, measurement: Measurement) -> None:
    try:
        file.write_bytes(encode_measurement(measurement))
    except OSError as error:
        raise ConfigurationError(
            f"the measurement cannot be written to {str(file)!r}: {error.strerror}"
        ) from None


# --- output -----------------------------------------------------------------------------------------


def _print(answer: _Answer) -> None:
    plan = answer.plans[""]
    out = console()
    wanted = "" if plan.target.latency_ms is None else f", 99% below {plan.target.latency_ms:g} ms"
    out.print(Text(f"{answer.model.measurement.job}: {plan.target.rate:,.0f} rows/s{wanted}"))
    if not plan.feasible:
        out.print(Text("no number of slots reaches this; the plan comes closest", "red"))
    out.print()
    out.print(_resources_table(answer.plans))
    out.print()
    out.print(Text(f"limited by {plan.limit}"))
    out.print()
    out.print(_costs_table(answer.model, plan))
    out.print()
    out.print(_machines_table(answer))
    if answer.is_example:
        out.print(Text("prices are placeholders: pass your own table with --instances"))
    out.print()
    out.print(Text("in brackets: where 9 of 10 measured values are expected; less certain, because:"))
    for doubt in (*answer.notes, *plan.doubts):
        out.print(Text(f"- {doubt}"))


def _resources_table(plans: Mapping[str, CapacityPlan]) -> Table:
    table = plain_table("", "needs")
    for changes in list(plans)[1:]:
        table.add_column(changes, overflow="fold")
    rows = [_resources(plan) for plan in plans.values()]
    for name in rows[0]:
        table.add_row(*map(Text, [name, *(row[name] for row in rows)]))
    return table


def _resources(plan: CapacityPlan) -> dict[str, str]:
    """Return the rows of the table: a resource, and how much of it the plan needs."""
    sure = plan.intervals
    timeout = plan.load.timeout_us
    pauses = f", {plan.load.waking_us / 1e6:.0%} for pauses" if plan.load.waking_us else ""
    waiting = "full buffers only" if timeout is None else f"{timeout / 1000:g} ms"
    return {
        "slots": f"{plan.slots}{'' if plan.feasible else ' (not enough)'}",
        "busiest slot": (
            f"{plan.load.busy:.0%} of a core{_write_ends(sure.busy, '{:.0%}'.format)}{pauses}"
        ),
        "highest rate": (
            f"{plan.max_rate:,.0f} rows/s{_write_ends(sure.max_rate, _rounded)}"
            if isfinite(plan.max_rate)
            else "unlimited"
        ),
        "latency": (
            f"{plan.latency.total_ms:,.0f} ms{_write_ends(sure.latency_ms, _rounded)}"
            if isfinite(plan.latency.total_ms)
            else "grows without limit"
        ),
        "buffer timeout": waiting,
        "memory of a slot": _size(plan.memory_bytes_per_slot, sure.memory_bytes_per_slot),
        "disk of a slot": _size(plan.disk_bytes_per_slot, sure.disk_bytes_per_slot),
        "between slots": _size(plan.network_bytes_per_s, sure.network_bytes_per_s, "/s"),
        "state": (
            f"{_size(plan.state_bytes, sure.state_bytes)} after {duration_text(plan.target.after_ms)}"
        ),
        "checkpoint store": _size(plan.checkpoint_store_bytes, sure.checkpoint_store_bytes),
        "checkpoints write": _size(plan.checkpoint_bytes_per_s, sure.checkpoint_bytes_per_s, "/s"),
    }


def _size(size_bytes: float, interval: ExpectedRange, per: str = "") -> str:
    between = _write_ends(interval, lambda size: size_text(round(size)))
    return f"{size_text(round(size_bytes))}{per}{between}"


def _write_ends(interval: ExpectedRange, written: Callable[[float], str]) -> str:
    """Write the two ends in brackets, or that they are not known."""
    if interval.high <= 0:
        return ""
    if not isfinite(interval.high):
        return " (not known)"
    return f" ({written(interval.low)} to {written(interval.high)})"


def _rounded(value: float) -> str:
    """Return a number with at most two digits that are not 0: more would not be certain."""
    digits = max(0, len(f"{value:.0f}") - 2)
    return f"{round(value, -digits):,.0f}"


def _costs_table(model: CostModel, plan: CapacityPlan) -> Table:
    table = plain_table("operators", "line")
    for heading in ("busiest slot", "µs/row", "µs/remote row", "µs/batch", "µs/sent batch"):
        table.add_column(heading, justify="right")
    for cost in model.chains:
        share = plan.load.chains[cost.chain.id] / 1e6
        per_row = [f"{us:.3f}" for us in (cost.row_us, cost.remote_us)]
        per_batch = [f"{us:.1f}" for us in (cost.batch_us, cost.send_us)]
        cells = [cost.chain.name, cost.chain.site, f"{share:.0%}", *per_row, *per_batch]
        table.add_row(*map(Text, cells))
    return table


def _machines_table(answer: _Answer) -> Table:
    table = plain_table("machines", "kind", "because of")
    table.add_column("per hour", justify="right")
    for changes, plan in answer.plans.items():
        machines = answer.machines(plan)
        if not machines:
            table.add_row("0", "no kind has room for a slot", "memory or disk", "")
        for each in machines:
            named = f"{each.instance.name}{f' ({changes})' if changes else ''}"
            price = f"{each.price_per_hour:,.2f} {answer.table.currency}".strip()
            table.add_row(*map(Text, [str(each.count), named, each.reason, price]))
    return table


def _object(answer: _Answer) -> dict[str, Any]:
    plan = answer.plans[""]
    changed = {name: _plan_object(answer, each) for name, each in answer.plans.items() if name}
    return {
        "job": answer.model.measurement.job,
        **_plan_object(answer, plan),
        "whatif": changed,
        "chains": [
            {
                "operators": list(cost.chain.operators),
                "site": cost.chain.site,
                "row_us": cost.row_us,
                "remote_row_us": cost.remote_us,
                "batch_us": cost.batch_us,
                "sent_batch_us": cost.send_us,
                "rows_per_source_row": cost.rows_per_source_row,
            }
            for cost in answer.model.chains
        ],
        "notes": [*answer.notes, *plan.doubts],
    }


def _plan_object(answer: _Answer, plan: CapacityPlan) -> dict[str, Any]:
    return {
        "rate_per_s": plan.target.rate,
        "feasible": plan.feasible,
        "slots": plan.slots,
        "busy": plan.load.busy,
        "busy_with_pauses": plan.load.waking_us / 1e6,
        "max_rate_per_s": _finite(plan.max_rate),
        "latency_ms": _finite(plan.latency.total_ms),
        "latency_without_source_ms": _finite(plan.latency.path_ms),
        "buffer_timeout_us": plan.load.timeout_us,
        "limit": plan.limit,
        "memory_bytes_per_slot": round(plan.memory_bytes_per_slot),
        "disk_bytes_per_slot": round(plan.disk_bytes_per_slot),
        "network_bytes_per_s": round(plan.network_bytes_per_s),
        "state_bytes": round(plan.state_bytes),
        "checkpoint_store_bytes": round(plan.checkpoint_store_bytes),
        "checkpoint_bytes_per_s": round(plan.checkpoint_bytes_per_s),
        "intervals": {
            name: [_finite(each.low), _finite(each.high)] for name, each in vars(plan.intervals).items()
        },
        "machines": [
            {
                "instance": each.instance.name,
                "count": each.count,
                "because_of": each.reason,
                "price_per_hour": each.price_per_hour,
            }
            for each in answer.machines(plan)
        ],
    }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
