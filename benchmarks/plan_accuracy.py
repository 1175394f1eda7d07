"""Predictions of `rheos plan`, compared with real runs at 2, 4 and 8 slots.

usage: python -m benchmarks.plan_accuracy [--quick] [--rounds N] [--only NAME ...] [--json FILE]

Each round takes a sample of each job of `plan_jobs.py`, as the command does, and fits the model. Then
it runs the job itself:

- at full load: the processor time of a row, and the memory of a slot;
- at 50,000 rows per second, with checkpoints: also the bytes between slots, the size of the state, the
  bytes that checkpoints write and keep, the disk of a slot with state on disk, and the latency;
- with twice the keys on half of the slots, and with ten times the keys, as `--whatif` plans them.

The first table has each quantity, predicted and measured, as medians of the rounds. A machine may have
fewer cores than slots, so processor time is that of a row, and not a rate. The second table counts, for
each quantity, how often the prediction is within 20 % of the measured value, and how often it is within
the interval that the plan itself prints, with the median of the ratio of its ends. For the 20 %,
processor time and latency do not count if the slots waited for a core, which the plan leaves out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.plan_runs import RealRun, real_run
from rheos.api import partial_settings
from rheos.api.overrides import Overrides
from rheos.ops.planning.assumptions import changed_model, parse_changes
from rheos.ops.planning.cost_model import CostModel, remote_share
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.intervals import ExpectedRange
from rheos.ops.planning.load import load_at, max_rate
from rheos.ops.planning.model import CapacityPlan, PlanTarget, plan_with
from rheos.ops.planning.sample_run import measure_sample

PROGRAM = Path(__file__).with_name("plan_jobs.py")
SLOTS = (8, 4, 2)
RATE = 50_000
GOOD = 0.2
"""Relative error of a good prediction."""
BUSY = 0.2
"""Share of the working time that slots may wait for a core."""
TIMES = ("processor time, µs/row", "latency, ms")
"""Quantities that depend on such waits: slots that wait pause less often, and rows are late."""


@dataclass(frozen=True)
class Job:
    """A job of `plan_jobs.py`, with its number of keys and its state backend."""

    program: str
    keys: int
    backend: str = "memory"

    @property
    def settings(self) -> Overrides:
        backend = partial_settings.from_command({"state.backend": self.backend})
        return Overrides(settings=(backend,))

    def arguments(self, factor: int = 1, rate: int | None = None) -> list[str]:
        return [self.program, str(self.keys * factor), *([] if rate is None else [str(rate)])]


JOBS = {
    "grouping": Job("grouping", 10_000),
    "windows": Job("windows", 10_000),
    "function": Job("function", 10_000),
    "growing": Job("grouping", 200_000),
    "on disk": Job("grouping", 200_000, "rocksdb"),
}


@dataclass(frozen=True)
class Compared:
    """A prediction, and the measured value."""

    quantity: str
    predicted: float
    measured: float
    interval: ExpectedRange
    """Values between which the plan expects the measured one."""
    core_wait: float = 0.0
    """Share of the run's working time that slots waited for a core, if that changes the quantity."""

    @property
    def counts(self) -> bool:
        """Return whether the machine was quiet enough for a comparison."""
        return self.core_wait <= BUSY

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured if self.measured else 1.0

    @property
    def inside(self) -> bool:
        return self.interval.contains(self.measured)

    def line(self) -> str:
        busy = "" if self.counts else f"; slots waited for a core {self.core_wait:.0%} of their time"
        inside = "inside" if self.inside else "outside"
        return (
            f"{self.quantity}: {self.predicted:,.3f} predicted, {self.measured:,.3f} measured, "
            f"ratio {self.ratio:.2f}, {inside} {self.interval.low:,.3f} to "
            f"{self.interval.high:,.3f}{busy}"
        )


@dataclass(frozen=True)
class Length:
    """Duration of the parts of a round, in s."""

    sample: float
    full: float
    at_rate: float
    slots: Sequence[int]


FULL = Length(15.0, 3.0, 7.0, SLOTS)
QUICK = Length(8.0, 2.0, 5.0, (4, 2))


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="about seven minutes for all jobs, without 8 slots"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--json", type=Path, help="also write each comparison to this file")
    given = parser.parse_args(argv)
    length = QUICK if given.quick else FULL
    found: dict[tuple[str, str, str], list[Compared]] = defaultdict(list)
    # The largest number of slots is first, so that all runs share one Spark context.
    real_run(PROGRAM, JOBS["grouping"].arguments(), Overrides(), max(length.slots), 2.0)
    try:
        for round_ in range(given.rounds):
            for name in given.only:
                for case, each in compared(JOBS[name], length):
                    found[name, case, each.quantity].append(each)
                    print(f"{name}, {case}: {each.line()}", file=sys.stderr, flush=True)
                print(f"round {round_ + 1}: {name}", file=sys.stderr, flush=True)
    finally:
        print_cells(found)
        print()
        print_quantities(found)
        if given.json is not None:
            rows = [(*at, *map(asdict, every)) for at, every in found.items()]
            given.json.write_text(json.dumps(rows, indent=1))


# --- the comparisons --------------------------------------------------------------------------------


def compared(job: Job, length: Length) -> Iterator[tuple[str, Compared]]:
    """Yield each case of a job, with a quantity that the plan predicts for it."""
    sample = measure_sample(PROGRAM, job.arguments(), job.settings, length.sample, lambda what: None)
    model = fit(sample.measurement)
    for slots in length.slots:
        compiled = any(chain.compiled for chain in sample.measurement.chains)
        full = real_run(PROGRAM, job.arguments(), job.settings, slots, length.full, compiled)
        for each in at_full_load(model, slots, full):
            yield f"{slots} slots, full load", each
        run = real_run(PROGRAM, job.arguments(rate=RATE), job.settings, slots, length.at_rate)
        plan = plan_with(model, target_of(run), slots)
        for each in at_rate(model, plan, run):
            yield f"{slots} slots, {RATE:,}/s", each
    for changes, factor, slots in (("keys=2x,machines=0.5x", 2, 2), ("keys=10x", 10, 4)):
        run = real_run(PROGRAM, job.arguments(factor, RATE), job.settings, slots, length.at_rate)
        changed = changed_model(model, parse_changes(changes))
        plan = plan_with(changed, target_of(run), slots)
        for each in at_rate(changed, plan, run):
            yield f"--whatif {changes}: {slots} slots", each


def target_of(run: RealRun) -> PlanTarget:
    """Return the load of a run, until its last checkpoint."""
    return PlanTarget(run.rate, after_ms=round(run.seconds * 1000))


def at_full_load(model: CostModel, slots: int, run: RealRun) -> Iterator[Compared]:
    # With fewer cores than slots, the rate at full load is lower than with a core for each.
    rate = max(run.rate, max_rate(model, slots))
    after_ms = round(run.seconds * 1000 * run.rate / rate)
    plan = plan_with(model, PlanTarget(rate, after_ms=after_ms), slots)
    us = load_at(model, slots, 1.0, None).total_us
    # The cost of a row varies as much as the highest rate.
    rates = plan.intervals.max_rate
    between = ExpectedRange(us * plan.max_rate / rates.high, us * plan.max_rate / rates.low)
    yield Compared(TIMES[0], us, run.cpu_us, between)
    yield _of_sizes("memory of a slot, MB", plan, "memory_bytes_per_slot", run.memory_bytes)


def _of_sizes(quantity: str, plan: CapacityPlan, name: str, measured: float) -> Compared:
    """Return the comparison of bytes, in MB. `name` is that of the plan's attribute."""
    between: ExpectedRange = getattr(plan.intervals, name)
    return Compared(
        quantity,
        getattr(plan, name) / 1e6,
        measured / 1e6,
        ExpectedRange(between.low / 1e6, between.high / 1e6),
    )


def at_rate(model: CostModel, plan: CapacityPlan, run: RealRun) -> Iterator[Compared]:
    rate, us = plan.target.rate, plan.intervals.processor_us
    frame_bytes = max(edge.frame_bytes for edge in model.measurement.edges)
    sent = run.sent_bytes_per_s + run.sent_batches_per_s * frame_bytes
    written = run.written_bytes / (model.measurement.checkpoint_interval_ms or 1) * 1000
    between = ExpectedRange(us.low / rate, us.high / rate)
    yield Compared(TIMES[0], plan.load.total_us / rate, run.cpu_us, between, run.core_wait)
    yield _of_sizes("memory of a slot, MB", plan, "memory_bytes_per_slot", run.memory_bytes)
    yield _of_sizes("between slots, MB/s", plan, "network_bytes_per_s", sent * remote_share(plan.slots))
    yield _of_sizes("state in a checkpoint, MB", plan, "checkpoint_bytes", run.state_bytes)
    yield _of_sizes("checkpoints, MB/s", plan, "checkpoint_bytes_per_s", written)
    yield _of_sizes("checkpoint store, MB", plan, "checkpoint_store_bytes", run.store_bytes)
    if model.measurement.state_on_disk:
        yield _of_sizes("disk of a slot, MB", plan, "disk_bytes_per_slot", run.disk_bytes)
    latency = plan.latency
    yield Compared(TIMES[1], latency.path_ms, run.latency_ms, latency.path, run.core_wait)


# --- tables -----------------------------------------------------------------------------------------


def print_cells(found: Mapping[tuple[str, str, str], Sequence[Compared]]) -> None:
    print("| job | case | quantity | predicted | measured | ratio | within 20 % |")
    print("|---|---|---|---:|---:|---:|---|")
    for (job, case, quantity), every in found.items():
        predicted = median(each.predicted for each in every)
        measured = median(each.measured for each in every)
        ratio = median(each.ratio for each in every)
        verdict = "yes" if abs(ratio - 1) <= GOOD else "no"
        if not all(each.counts for each in every):
            verdict = f"busy machine: {max(each.core_wait for each in every):.0%}"
        print(
            f"| {job} | {case} | {quantity} | {predicted:,.3f} | {measured:,.3f} "
            f"| {ratio:.2f} | {verdict} |",
            flush=True,
        )


def print_quantities(found: Mapping[tuple[str, str, str], Sequence[Compared]]) -> None:
    by_quantity: dict[str, list[Compared]] = defaultdict(list)
    for (_, case, quantity), every in found.items():
        name = f"{quantity}, {'full load' if 'full load' in case else 'at the rate'}"
        by_quantity[name].extend(every)
    by_quantity["all"] = [each for every in by_quantity.values() for each in every]
    print("| quantity | inside the plan's interval | width | within 20 % | ratios |")
    print("|---|---:|---:|---:|---|")
    for name, every in by_quantity.items():
        quiet = [each for each in every if each.counts]
        ratios = [each.ratio for each in every]
        good = sum(abs(each.ratio - 1) <= GOOD for each in quiet)
        inside = sum(each.inside for each in every)
        width = median(each.interval.high / max(each.interval.low, 1e-9) for each in every)
        print(
            f"| {name} | {inside} of {len(every)} | {width:.1f}x | {good} of {len(quiet)} "
            f"| {min(ratios):.2f} to {max(ratios):.2f}, median {median(ratios):.2f} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
