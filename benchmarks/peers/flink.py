"""Flink on this machine: its jars, and a benchmark run by them in a Java process of its own.

The jars are those that the wheel `apache-flink-libraries` brings. It is installed into a folder of its
own in the user's cache, and the programs in `java/` are compiled against them.
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

from benchmarks.peers.installed import installed_once, pip_install
from benchmarks.peers.lasting import LastingSystem
from rheos.runtimes.spark.jvm_options import find_java

VERSION = "2.3.0"
_SOURCES = Path(__file__).parent / "java"
_OPENED = ("java.lang", "java.nio", "java.time", "java.util", "java.util.concurrent")
"""Packages of Java's own that Flink looks into."""


class Flink:
    """Flink of one version, ready to run."""

    def __init__(self) -> None:
        """Fetches what is not there yet, and compiles. Raises ConfigurationError where there is no
        Java, and CalledProcessError."""
        self._java, _ = find_java("Flink")
        self._folder = installed_once(f"flink-{VERSION}", _install)
        self._classes = tempfile.TemporaryDirectory(prefix="rheos-peer-")
        sources = sorted(map(str, _SOURCES.glob("*.java")))
        javac = str(Path(self._java).with_name("javac"))
        compiler = [javac, "-nowarn", "-cp", self._jars(), "-d", self._classes.name]
        subprocess.run([*compiler, *sources], check=True, stderr=subprocess.DEVNULL)
        shutil.copytree(_SOURCES / "META-INF", Path(self.classes, "META-INF"))

    def _jars(self) -> str:
        libraries = self._folder / "pyflink" / "lib"
        return os.pathsep.join(
            str(jar)
            for kind in ("flink-dist-*.jar", "flink-cep-*.jar", "flink-table-*.jar", "log4j-*.jar")
            for jar in sorted(libraries.glob(kind))
        )

    def measure(self, cell: str, seconds: float) -> dict[str, Any]:
        """Return the metrics of one run, by the names of `rheos bench --json`. A cell is what
        `rheos bench` takes: a benchmark and its options. Raises CalledProcessError."""
        return self.run(f"{cell} --seconds {seconds:g}")

    @property
    def classes(self) -> str:
        """The folder of the compiled programs."""
        return self._classes.name

    def run(self, arguments: str) -> dict[str, Any]:
        """Return the object that a program prints. Raises CalledProcessError."""
        done = subprocess.run(
            [*self._program(), *arguments.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return printed

    def lasting(self) -> LastingSystem:
        """Return Flink in one Java process for many runs. The caller must close it."""
        return LastingSystem(self._program())

    def _program(self) -> list[str]:
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        classes = os.pathsep.join([self._classes.name, self._jars()])
        return [self._java, *opened, "-Xmx2g", "-cp", classes, "Peer"]

    def close(self) -> None:
        self._classes.cleanup()


def _install(folder: str) -> None:
    pip_install(sys.executable, ["--no-deps", "--target", folder, f"apache-flink-libraries=={VERSION}"])
