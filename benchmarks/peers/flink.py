"""Flink on this machine: its jars, and a benchmark run by them in a Java process of its own.

The jars are those that the wheel `apache-flink-libraries` brings. It is installed into a virtual
environment in the user's cache, which nothing else uses, and the programs in `java/` are compiled
against them there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rheos.host.user_cache import user_cache

VERSION = "2.3.0"
_SOURCES = Path(__file__).parent / "java"
_OPENED = ("java.lang", "java.nio", "java.time", "java.util", "java.util.concurrent")
"""Packages of Java's own that Flink looks into."""


class Flink:
    """Flink of one version, ready to run."""

    def __init__(self, version: str = VERSION) -> None:
        """Fetches and compiles what is not there yet. Raises CalledProcessError."""
        self._folder = user_cache(f"flink-{version}")
        if not self._folder.exists():
            _install(self._folder, version)
        self._classes = tempfile.TemporaryDirectory(prefix="rheos-peer-")
        sources = sorted(map(str, _SOURCES.glob("*.java")))
        compiler = [_java("javac"), "-nowarn", "-cp", self._jars(), "-d", self._classes.name]
        subprocess.run([*compiler, *sources], check=True, stderr=subprocess.DEVNULL)

    def _jars(self) -> str:
        (libraries,) = self._folder.glob("lib/python*/site-packages/pyflink/lib")
        return os.pathsep.join(
            str(jar)
            for kind in ("flink-dist-*.jar", "log4j-*.jar")
            for jar in sorted(libraries.glob(kind))
        )

    def measure(self, cell: str, seconds: float) -> dict[str, Any]:
        """The figures of one run, by the names of `rheos bench --json`. A cell is what `rheos bench`
        takes: a benchmark and its options. Raises CalledProcessError."""
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        classes = os.pathsep.join([self._classes.name, self._jars()])
        program = [_java("java"), *opened, "-Xmx2g", "-cp", classes, "Peer"]
        done = subprocess.run(
            [*program, *cell.split(), "--seconds", f"{seconds:g}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return measured

    def close(self) -> None:
        self._classes.cleanup()


def _install(folder: Path, version: str) -> None:
    """The folder is there whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        subprocess.run([sys.executable, "-m", "venv", made], check=True)
        pip = [f"{made}/bin/python", "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, f"apache-flink-libraries=={version}"], check=True)
        shutil.copytree(made, folder, symlinks=True)


def _java(tool: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", tool)) if home else tool
