"""Metrics of a benchmark as a JSON object, or as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from rheos.cli.benchmarks.driver import BenchResult
from rheos.core.protocol.durations import duration_ms


def as_json(outcome: BenchResult) -> dict[str, Any]:
    """Return the object that `--json` prints. Values that the benchmark does not have are null."""
    settings, load, window = outcome.settings, outcome.load, outcome.window
    p50, p90, p99 = (None if ms is None else round(ms, 3) for ms in window.latencies_ms)
    interval = settings.checkpoint_interval
    return {
        "name": outcome.program.name,
        "records_per_s": round(window.records_per_s),
        "records_per_s_per_core": round(window.records_per_s / load.parallelism),
        "cpu_share": round(window.cpu_share, 3),
        "cores": round(outcome.cores, 3),
        "processor_us_per_record": _us_per_record(outcome),
        "latency_ms": {"p50": p50, "p90": p90, "p99": p99},
        "parallelism": load.parallelism,
        "keys": load.keys,
        "rate_per_s_per_core": load.rate_per_core,
        "seconds": settings.seconds,
        "warmup_s": settings.warmup_s,
        "batch_rows": load.batch_rows,
        "state_backend": settings.state.backend.value,
        "buffer_timeout_ms": None if settings.buffer_timeout == "-1" else _ms(settings.buffer_timeout),
        "objective": _objective(outcome),
        "checkpoint_interval_ms": None if interval is None else _ms(interval),
        "checkpoints_completed": outcome.status.checkpoints_completed,
        "checkpoints_failed": outcome.status.checkpoints_failed,
        "last_checkpoint_ms": outcome.status.last_checkpoint_ms,
        "restarts": outcome.status.restarts,
        "rss_mib": {"start": round(window.rss_start_mib), "end": round(window.rss_end_mib)},
    }


def as_table(outcome: BenchResult) -> Table:
    """Return the metrics as a table to display."""
    metrics = as_json(outcome)
    table = Table(title=f"{outcome.program.name}: {outcome.program.about}", title_justify="left")
    table.add_column("measured")
    table.add_column("", justify="right")
    table.add_row("records/s", f"{metrics['records_per_s']:,}")
    table.add_row("records/s/core", f"{metrics['records_per_s_per_core']:,}")
    table.add_row("share of a core that each worker used", f"{metrics['cpu_share']:.0%}")
    table.add_row("cores that all processes used", f"{metrics['cores']:.2f}")
    us = metrics["processor_us_per_record"]
    table.add_row("processor time per record", "none" if us is None else f"{us:,.3f} µs")
    for name, ms in metrics["latency_ms"].items():
        table.add_row(f"latency {name}", "none" if ms is None else f"{ms:,.2f} ms")
    checkpoints = f"{metrics['checkpoints_completed']:,}"
    if metrics["last_checkpoint_ms"] is not None:
        checkpoints += f" (the last took {metrics['last_checkpoint_ms']:,} ms)"
    table.add_row("checkpoints", checkpoints)
    table.add_row("restarts", f"{metrics['restarts']:,}")
    rss = metrics["rss_mib"]
    table.add_row("memory of the largest worker", f"{rss['start']:,} MiB, then {rss['end']:,} MiB")
    table.caption = _conditions(metrics)
    table.caption_justify = "left"
    return table


def _conditions(metrics: dict[str, Any]) -> str:
    timeout, interval = metrics["buffer_timeout_ms"], metrics["checkpoint_interval_ms"]
    rate = metrics["rate_per_s_per_core"]
    parts = [
        f"parallelism {metrics['parallelism']}",
        *([f"{metrics['keys']:,} keys"] if metrics["keys"] else []),
        f"{rate:,.0f} records/s/core requested" if rate else "at full load",
        f"{metrics['seconds']:g} s after {metrics['warmup_s']:g} s of warm-up",
        f"batches of {metrics['batch_rows']:,} rows",
        *(["state in RocksDB"] if metrics["state_backend"] == "rocksdb" else []),
        _waiting(timeout, metrics["objective"]),
        "no checkpoints" if interval is None else f"a checkpoint every {interval} ms",
    ]
    return ", ".join(parts)


def _objective(outcome: BenchResult) -> dict[str, float] | None:
    """Return the latency objective, and what the job had chosen and measured at the end."""
    latency = outcome.status.latency
    return None if latency is None else asdict(latency)


def _waiting(timeout_ms: int | None, objective: dict[str, float] | None) -> str:
    if objective is not None:
        return (
            f"an objective of {objective['objective_ms']:g} ms (found {objective['found_ms']:.1f} ms, "
            f"chose batches of {objective['batch_rows']:,} rows and a buffer timeout of "
            f"{objective['buffer_timeout_ms']:.1f} ms)"
        )
    return "full buffers only" if timeout_ms is None else f"buffer timeout {timeout_ms} ms"


def _us_per_record(outcome: BenchResult) -> float | None:
    rate = outcome.window.records_per_s
    return round(outcome.cores * 1e6 / rate, 4) if rate else None


def _ms(text: str) -> int:
    return 0 if text == "0" else duration_ms(text)
