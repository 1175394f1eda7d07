"""A server that consists of jars of Maven Central, run by the Java of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rheos.ops.servers import jars
from rheos.ops.servers.server import Server
from rheos.runtimes.spark import class_archive
from rheos.runtimes.spark.jvm_options import find_java

_SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options that compile little, because the process lives only briefly."""


class JavaServer(Server):
    """A server whose jars are in the list of its name (`jars.py`)."""

    title: ClassVar[str]
    """Name of the server in error messages."""
    writes_archive: ClassVar[bool] = False
    """Whether its first JVM leaves an archive of its classes, with which later ones start faster.
    Writing it takes some seconds at the end, depending on the number of classes."""

    def __init__(self, *, port: int | None = None, data: str | Path | None = None) -> None:
        super().__init__(port=port, data=data)
        self._java: str | None = None
        self._jars: Path
        self._archive: Sequence[str] = ()

    def install(self) -> None:
        self._java, version = find_java(self.title)
        self._jars = jars.installed(self.name)
        if self.writes_archive:
            self._archive = class_archive.java_options(version, self._jars, of=self.name)

    def java(self, *options: str, may_archive: bool = True) -> list[str]:
        """Return a command line up to the class to run. Only the server itself may write the archive of
        classes."""
        assert self._java is not None
        archive = [each for each in self._archive if may_archive or "AtExit" not in each]
        return [self._java, *_SHORT_LIVED, *options, "-cp", f"{self._jars}/*", *archive]

    def compiled(self, source: Path, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """Return a command line that compiles a class and runs its `main`, by Janino, as a JRE has no
        compiler. Janino must be among the jars.

        Args:
            source: file of the class, which has the class's name.
            arguments: arguments of `main`.
            options: options of Java.
        """
        compiler = "org.codehaus.janino.SimpleCompiler"
        return [*self.java(*options), compiler, str(source), source.stem, *arguments]
