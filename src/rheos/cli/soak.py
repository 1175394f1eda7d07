"""`rheos bench soak`: prints the metrics of each minute, and at the end the result of the checks."""

from __future__ import annotations

import json

import msgspec

from rheos.cli.benchmarks.soak import Minute, SoakResult, SoakSettings, run
from rheos.cli.terminal import FAILED, Terminal, report

_COLUMNS = (
    "minute", "records/s", "CPU", "worker MiB", "driver MiB", "checkpoint MiB", "written MiB",
    "took ms", "sync ms", "directory MiB", "checkpoints", "failed", "restarts",
    "handles", "threads",
)  # fmt: skip


def soak(settings: SoakSettings, as_json: bool) -> int:
    """Run the soak test and return the exit code, which is 1 if a check failed."""
    console = Terminal(stderr=True)
    lines = not as_json
    try:
        with console.status("soak: starting") as shown:
            if lines:
                print("  ".join(_COLUMNS), flush=True)
            soaked = run(
                settings,
                lambda what: shown.update(f"soak: {what}"),
                lambda minute: print(line(minute), flush=True) if lines else None,
            )
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    problems = soaked.problems()
    if as_json:
        print(json.dumps(_as_json(soaked)))
    else:
        published = soaked.published
        print(f"{published.windows:,} windows published, of {published.rows:,} rows")
        for problem in problems:
            print(f"failed: {problem}")
        if not problems:
            print("all held")
    return FAILED if problems else 0


def line(minute: Minute) -> str:
    """Return a minute's metrics as a line of the table."""
    mib = 2**20
    cells = (
        f"{minute.number}",
        f"{minute.records_per_s:,.0f}",
        f"{minute.cpu_share:.0%}",
        f"{minute.worker_mib:,.0f}",
        f"{minute.driver_mib:,.0f}",
        f"{minute.checkpoint_bytes / mib:,.1f}",
        f"{minute.written_bytes / mib:,.1f}",
        f"{minute.checkpoint_ms:,}",
        f"{minute.sync_ms:,.1f}",
        f"{minute.directory_bytes / mib:,.1f}",
        f"{minute.checkpoints:,}",
        f"{minute.failed:,}",
        f"{minute.restarts:,}",
        f"{minute.handles:,}",
        f"{minute.threads:,}",
    )
    return "  ".join(cell.rjust(len(name)) for cell, name in zip(cells, _COLUMNS, strict=True))


def _as_json(soaked: SoakResult) -> dict[str, object]:
    return {
        "settings": {
            "minutes": soaked.settings.minutes,
            "parallelism": soaked.settings.parallelism,
            "keys": soaked.settings.keys,
            "checkpoint_interval": soaked.settings.checkpoint_interval,
            "state_backend": soaked.settings.state.backend.value,
            "rate_per_s": soaked.settings.rate_per_s,
        },
        "minutes": [msgspec.to_builtins(minute) for minute in soaked.minutes],
        "published": msgspec.to_builtins(soaked.published),
        "problems": soaked.problems(),
    }
