"""Options of the JVM of Spark's driver.

This module imports nothing of PySpark, because `early_start` may start the JVM before that.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from rheos.core.errors import ConfigurationError
from rheos.runtimes.host.memory_room import memory_limit
from rheos.runtimes.spark import class_archive

OPTIONS = "spark.driver.extraJavaOptions"
_GIB = 1 << 30
_MEMORY = "spark.driver.memory"

_INSTALL_JAVA = (
    "install Java 17 or newer (on Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "on macOS: brew install openjdk@17), or point JAVA_HOME at one"
)

_PATIENT_COMPILER = tuple(
    f"-XX:Tier4{threshold}={10 * default}"
    for threshold, default in {
        "InvocationThreshold": 5_000,
        "MinInvocationThreshold": 600,
        "CompileThreshold": 15_000,
        "BackEdgeThreshold": 40_000,
    }.items()
)
"""Options that make the JVM's optimising compiler wait for code that is ten times as hot as usual. Most
of what it compiles while Spark starts is not run again, and that takes a third of the time."""


def jvm_settings(java_version: str, given: str = "") -> dict[str, str]:
    """Return the settings of a JVM that is not started yet. `given` are its options so far."""
    knows = "Server VM" in java_version and "Tier4" not in given
    ours = list(_PATIENT_COMPILER) if knows else []
    if "log4j" not in given and not os.environ.get("SPARK_CONF_DIR"):
        ours += _quiet_log()
    if not any(option in given for option in ("SharedArchiveFile", "ArchiveClassesAtExit")):
        ours += class_archive.java_options(java_version, spark_home() / "jars")
    return {**memory_settings(), OPTIONS: " ".join([*ours, given]).strip()}


def local_environment() -> dict[str, str]:
    """Return environment variables for a JVM on this machine, in addition to the user's own."""
    ours = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    return {name: value for name, value in ours.items() if name not in os.environ}


@contextmanager
def this_python_for_workers() -> Iterator[None]:
    """Let Spark contexts that are made in the block run workers with this Python, unless the user has
    configured another one. PySpark's default is the `python3` of PATH."""
    name = "PYSPARK_PYTHON"
    if name in os.environ:
        yield
        return
    os.environ[name] = sys.executable
    try:
        yield
    finally:
        os.environ.pop(name, None)


def workers_run_this_python() -> bool:
    """Return whether no other Python is configured. Many configure this one, as Spark's docs do."""
    return os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable


def surroundings() -> tuple[dict[str, str], str]:
    """Return the environment and folder of a process that is started here. Names with a leading
    underscore are omitted: libraries set them, such as Polars when it is imported."""
    seen = {**os.environ, **local_environment()}
    return {name: value for name, value in seen.items() if not name.startswith("_")}, os.getcwd()


def spark_home(environment: Mapping[str, str] = os.environ) -> Path:
    if home := environment.get("SPARK_HOME"):
        return Path(home)
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _quiet_log() -> list[str]:
    """Return the option for our log settings, which apply from the JVM's first line."""
    file = resources.files("rheos.runtimes.spark") / "log4j2.properties"
    return [f"-Dlog4j2.configurationFile={file.as_uri()}"] if isinstance(file, Path) else []


def require_java() -> str:
    """Return Java's description of its version. Raise ConfigurationError if Java is missing."""
    return find_java("Spark")[1]


def find_java(of: str) -> tuple[str, str]:
    """Return the path of the Java for `of`, and its `-version`. Raise ConfigurationError."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or shutil.which(java) is None:
        where = f"in JAVA_HOME ({home})" if home else "on this machine"
        raise ConfigurationError(f"{of} needs Java, which was not found {where}", hint=_INSTALL_JAVA)
    known_version = _version(java)
    version = re.search(r'version "(?:1\.)?(\d+)', known_version)
    if version and int(version.group(1)) < 17:
        raise ConfigurationError(
            f"{of} needs Java 17 or newer, but {java} is Java {version.group(1)}", hint=_INSTALL_JAVA
        )
    return java, known_version


@functools.cache
def _version(java: str) -> str:
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr


# --- memory -----------------------------------------------------------------------------------------


def memory_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the heap size of a JVM that is not started yet, as Spark's default of 1 GB is too small.
    Empty if the user has set it."""
    given = environment.get("PYSPARK_SUBMIT_ARGS", "")
    if "SPARK_DRIVER_MEMORY" in environment or "driver-memory" in given or _MEMORY in given:
        return {}
    if _MEMORY in _defaults(environment):
        return {}
    return {_MEMORY: f"{heap_bytes(memory_limit()) >> 20}m"}


def heap_bytes(machine_bytes: int) -> int:
    """Return the heap size: a quarter of the machine. The rest is for the Python workers."""
    return max(_GIB, min(machine_bytes // 4, 8 * _GIB))


def _defaults(environment: Mapping[str, str]) -> str:
    """Return Spark's own settings file without comments; our settings would override it."""
    folder = environment.get("SPARK_CONF_DIR") or spark_home(environment) / "conf"
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))
