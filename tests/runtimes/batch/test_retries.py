"""Tasks that Spark repeats: files staged by a dead task are never published, and are removed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import polars as pl
import pytest

pytestmark = pytest.mark.spark

PROGRAM = dedent('''
    import os
    import signal
    import sys
    from dataclasses import dataclass

    import rheos as rh
    from rheos import col
    from rheos.core.connectors.contract import Sink, SinkWriter

    out, marks = sys.argv[1], sys.argv[2]


    def strike(where):
        """Kills this worker, once for each place."""
        try:
            os.close(os.open(os.path.join(marks, where), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


    class Struck(SinkWriter):
        def __init__(self, where, writer):
            self.where, self.writer = where, writer

        def write(self, batch):
            self.writer.write(batch)

        def prepare(self, checkpoint):
            staged = self.writer.prepare(checkpoint)
            if staged:
                strike(f"{self.where}: staged, and nobody knows")
            return staged

        def close(self):
            strike(f"{self.where}: Spark has the notes, and the task has not ended")
            self.writer.close()


    @dataclass(frozen=True)
    class Striking(Sink):
        sink: Sink
        where: str

        def open(self, ctx):
            return Struck(self.where, self.sink.open(ctx))

        def committer(self):
            return self.sink.committer()

        def describe(self):
            return self.sink.describe()


    @dataclass
    class Row:
        key: str
        n: int


    def striking(where):
        return Striking(rh.files.sink(os.path.join(out, where)), where)


    env = rh.Environment(2, runtime="batch", master="local[2,3]")
    rows = rh.collection([Row(f"k{n % 7}", n) for n in range(500)])
    stream = env.from_source(rows)
    stream.sink_to(striking("as they came"))
    stream.key_by("key").running(seen=rh.agg.count()).sink_to(striking("by key"))
    result = env.execute("struck")
    print({o.name: o.records_in for o in result.status.operators if "parquet" in o.name})
''')


def test_a_task_that_dies_after_staging_publishes_nothing_twice(
    tmp_path: Path,
) -> None:
    """One of two sinks follows a source in a stage that Spark caches, the other follows a shuffle.
    Each loses its worker between staging and the end of the task, before and after Spark receives
    the staged files."""
    program, out, marks = tmp_path / "job.py", tmp_path / "out", tmp_path / "marks"
    program.write_text(PROGRAM)
    marks.mkdir()
    ran = subprocess.run(
        [sys.executable, str(program), str(out), str(marks)],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(list(marks.iterdir())) == 4
    came = pl.read_parquet(out / "as they came").sort("n")
    assert came["n"].to_list() == list(range(500))
    by_key = pl.read_parquet(out / "by key")
    assert sorted(by_key["n"].to_list()) == list(range(500))
    assert (
        by_key.group_by("key")
        .agg(pl.col("seen").max(), pl.len())
        .select((pl.col("seen") == pl.col("len")).all())
        .item()
    )
    assert ran.stdout.count("500") == 2
    left = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".parquet"]
    assert not [path for path in left if not path.name.startswith(".rheos")]
    assert not [path for path in out.rglob("*.parquet") if ".rheos" in str(path)]
