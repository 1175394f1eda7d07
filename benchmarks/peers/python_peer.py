"""Other stream processors for Python: each in a virtual environment of its own, with its own program.

A program runs the benchmark `state-machine`, in which a Python function is called for each event. It
takes `--parallelism`, `--keys`, `--seconds` and `--warmup`. Its last line is a JSON object: the number
of `records`, `latency_ms`, and when the measurement `began_ns` and `ended_ns`, since the epoch.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.paper.sampling import Sampler
from benchmarks.peers.installed import installed_once, pip_install

_FOLDER = Path(__file__).parent
_GRACE_S = 180
"""Maximum time that a program needs in addition to its measurement."""


@dataclass(frozen=True)
class PythonPeer:
    """A system that runs the state machine.

    Args:
        requirement: The package and its version, such as `bytewax==0.21.1`.
        program: Name of the program's file in this folder.
        options: Further options of the program; they take precedence over those of the cell.
        environment: Variables of the program, from the folder of its packages.
    """

    requirement: str
    program: str
    options: tuple[str, ...] = ()
    environment: Callable[[Path], Mapping[str, str]] = field(default=lambda packages: {})

    def measure(self, cell: str, seconds: float) -> dict[str, Any]:
        """Return the measurements of one run, by the names of `rheos bench --json`.

        Raises:
            CalledProcessError: The program failed.
            TimeoutExpired: It did not end in time.
        """
        python = self._python()
        packages = next((python.parent.parent / "lib").glob("python*/site-packages"))
        _, *given = cell.split()
        command = [str(python), str(_FOLDER / self.program), *given, "--seconds", f"{seconds:g}"]
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                [*command, *self.options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **self.environment(packages)},
            )
            with Sampler(every_s=0.25, process=psutil.Process(process.pid)) as sampler:
                try:
                    printed, _ = process.communicate(timeout=seconds + _GRACE_S)
                except subprocess.TimeoutExpired:
                    _end_with_children(process)
                    raise
            if process.returncode != 0:
                log.seek(0)
                raise subprocess.CalledProcessError(
                    process.returncode, command, stderr=log.read()[-2000:]
                )
        run = json.loads(printed.splitlines()[-1])
        took_s = (run["ended_ns"] - run["began_ns"]) / 1e9
        used_s = sampler.cpu_between(run["began_ns"], run["ended_ns"])
        return {
            "records_per_s": run["records"] / took_s,
            "cores": used_s / took_s,
            "processor_us_per_record": used_s * 1e6 / run["records"] if run["records"] else None,
            "latency_ms": run["latency_ms"],
        }

    def _python(self) -> Path:
        """Return the interpreter of the environment, which is made at first use."""
        folder = installed_once("peer-" + self.requirement.replace("==", "-"), self._install)
        return folder / "bin" / "python"

    def _install(self, folder: str) -> None:
        venv.create(folder, with_pip=True, symlinks=True)
        pip_install(f"{folder}/bin/python", [self.requirement])


def _end_with_children(process: subprocess.Popen[str]) -> None:
    """Kills a program with all processes that it started."""
    tree = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in tree:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
