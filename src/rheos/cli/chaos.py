"""`rheos chaos`: runs a job as `rheos run` does, and injects faults into its processes, its connections
to servers, and these servers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from rheos.cli.terminal import FAILED, report
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import JobFinished
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.ids import JobId
from rheos.ops.chaos import Fault, Plan, newest_checkpoint, run
from rheos.ops.chaos.struck_servers import ServerProcess, links_to, redirected
from rheos.runtimes.host.stores import open_store


def finished(directory: str) -> bool:
    """Return whether the log of every job in the checkpoint directory records that it has finished."""
    store = open_store(directory, make=False)
    jobs = {path.partition("/")[0] for path in store.list("") if "/log/" in path}
    logs = [JobLog(store, JobId(unquote(job))).read() for job in sorted(jobs)]
    return bool(logs) and all(isinstance(log.newest, JobFinished) for log in logs)


def _default_faults(links: Sequence[str], server_pids: Sequence[int]) -> str:
    of_servers = [*([Fault.CUT] if links else []), *([Fault.SERVER] if server_pids else [])]
    return ",".join(of_servers or [Fault.WORKERS])


def chaos(
    file: Path,
    arguments: Sequence[str],
    options: Sequence[tuple[str, object]],
    *,
    faults: str | None,
    links: Sequence[str],
    server_pids: Sequence[int],
    kill_every: str,
    for_: str | None,
    strikes: int | None,
    freeze: str,
    seed: int,
) -> int:
    """Run the command; return the exit code: 0 if the job finished, or was cancelled after `for_`.
    `options` with a value are passed to `rheos run`."""
    try:
        chosen = Fault.parse(faults or _default_faults(links, server_pids))
        given = {name: value for name, value in options if value is not None}
        if Fault.DRIVER in chosen and "--checkpoint-dir" not in given:
            raise ConfigurationError(
                "a job whose driver is killed can resume only from a persistent checkpoint directory",
                hint="pass --checkpoint-dir, or remove driver from --faults",
            )
        if not file.is_file():
            raise ConfigurationError(
                f"the job file {str(file)!r} does not exist",
                hint="pass the Python file that builds the job",
            )
        command = [sys.executable, "-m", "rheos", "run", str(file)]
        for name, value in given.items():
            command += [name, str(value)]
        # Frozen processes must resume, and no process may be left over, even if this command is
        # terminated.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        with links_to(links) as struck:
            passed_on, environment = redirected(struck, arguments, os.environ)
            plan = Plan(
                [*command, "--", *passed_on],
                faults=chosen,
                kill_every_s=duration_ms(kill_every) / 1000,
                for_s=None if for_ is None else duration_ms(for_) / 1000,
                strikes=strikes,
                progress=newest_checkpoint,
                links=struck,
                servers=[ServerProcess(pid) for pid in server_pids],
                seed=seed,
                freeze_s=duration_ms(freeze) / 1000,
                env=environment,
                finished=lambda: finished(str(given["--checkpoint-dir"])),
            )
            done = run(plan, log=lambda line: print(line, flush=True))
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    print("\n".join(done.summary()))
    return 0 if done.ok else FAILED
