"""A job over a standalone master and workers, whose processes are on separate hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyspark

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted, LogEntry, decode_entry
from rheos.core.protocol.ids import JobId
from rheos.runtimes.host.stores import open_store
from tests.deploy.cables import Quality
from tests.deploy.networks import Host, Network
from tests.processes import Started
from tests.waiting import wait_for

KEYS = 7
JOB = '''
"""Counts the rows of each key, and tells how far it is."""
import json
import sys

import pyarrow as pa
import rheos as rh

out, checkpoints, rows, rate, said = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
env = rh.Environment(
    2,
    runtime="continuous",
    checkpoint_dir=checkpoints,
    checkpoint_interval="300ms",
    heartbeat_timeout="3s",
    restart=rh.restart.fixed_delay(1000, delay="200ms"),
)
numbers = env.from_source(
    rh.generator(
        lambda block: {"k": block.index() % 7}, count=rows, splits=2, rate_per_s=rate
    )
)
numbers.key_by("k").running(n=rh.agg.count()).sink_to(rh.files.sink(out))
job = env.execute_async("numbers")
while True:
    try:
        result = job.wait(0.2)
        break
    except TimeoutError:
        status = job.status()
    with open(said, "w") as file:
        json.dump([sum(o.records_out for o in status.operators), status.restarts], file)
with open(said + ".end", "w") as file:
    json.dump([result.status.restarts, result.status.strangers], file)
'''


class Cluster:
    """Cluster with the master on this process's host, and each worker on another."""

    def __init__(
        self,
        network: Network,
        folder: Path,
        started: Started,
        *,
        workers: int = 2,
        cores: int = 2,
        quality: Quality | None = None,
    ) -> None:
        """Create the cluster. `quality` is that of the workers' cables."""
        self.network = network
        self._folder = folder
        self._started = started
        self._spark_class = str(Path(pyspark.__path__[0], "bin", "spark-class"))
        port = 20_000 + os.getpid() % 10_000
        self.url = f"spark://{network.address}:{port}"
        at = ["--host", network.address, "--port", str(port), "--webui-port", "0"]
        words = [self._spark_class, "org.apache.spark.deploy.master.Master", *at]
        self._master = started.command(words, **self.surroundings(network.address))
        wait_for(lambda: "started" in started.output(self._master).lower())
        self.hosts = [network.host(quality) for _ in range(workers)]
        for host in self.hosts:
            self._worker(host, cores)

    def host_of_a_slot(self) -> Host:
        """Return a host with slots of a running job. All slots may be on one host: that of the first
        executor."""
        return next(host for host in self.hosts if host.runs("-m pyspark.daemon"))

    def surroundings(self, address: str) -> dict[str, str]:
        return {
            "SPARK_LOCAL_IP": address,
            "SPARK_WORKER_DIR": str(self._folder / "work"),
            "PYSPARK_PYTHON": sys.executable,
        }

    def _worker(self, host: Host, cores: int) -> None:
        at = ["--host", host.address, "--port", "0", "--webui-port", "0", "--cores", str(cores)]
        memory = ["--memory", f"{cores // 2}g"]  # An executor of two cores takes 1 GB.
        words = [self._spark_class, "org.apache.spark.deploy.worker.Worker", *at, *memory, self.url]
        self._started.command(host.within(words), **self.surroundings(host.address))

    def run(
        self,
        rows: int,
        rate_per_s: int,
        on: Host | None = None,
        folder: str = "",
        standby: bool = False,
    ) -> Run:
        """Run the driver on the host `on`, or on the master's host. `folder`, below the test's, has its
        checkpoints and output."""
        shared = self._folder / folder
        return Run(self, self._started, self._folder, shared, rows, rate_per_s, on, standby)


class Run:
    """A run of one driver."""

    def __init__(
        self,
        cluster: Cluster,
        started: Started,
        own: Path,
        shared: Path,
        rows: int,
        rate_per_s: int,
        host: Host | None,
        standby: bool,
    ) -> None:
        self._rows = rows
        self._out, self._checkpoints = shared / "out", shared / "checkpoints"
        self._said = own / f"said-{host.name if host else 'here'}"
        job = own / "job.py"
        job.write_text(JOB)
        words = [str(self._out), str(self._checkpoints), str(rows), str(rate_per_s), str(self._said)]
        here = host.address if host else cluster.network.address
        rheos = str(Path(sys.executable).parent / "rheos")
        options = ["--master", cluster.url, *(["--standby"] if standby else [])]
        command = [rheos, "run", str(job), *options, *words]
        settings = ["--conf", f"spark.driver.host={here}", "--conf", "spark.cores.max=4"]
        if host is not None:
            # Two of them may have executors at a time.
            settings[-1] = "spark.cores.max=2"
        self._started = started
        self.driver: subprocess.Popen[bytes] = started.command(
            host.alone(command) if host else command,
            **cluster.surroundings(here),
            PYSPARK_SUBMIT_ARGS=f"{' '.join(settings)} pyspark-shell",
        )

    def has_read(self, rows: int) -> None:
        wait_for(lambda: self._progress()[0] >= rows, 400)

    def has_restarted(self) -> None:
        wait_for(lambda: self._progress()[1] > 0, 400)

    def _progress(self) -> list[int]:
        assert self.driver.poll() is None, self.output()[-4000:]
        try:
            found: list[int] = json.loads(self._said.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return [0, 0]
        return found

    def stands_by(self) -> None:
        wait_for(lambda: "standing by: " in self._living(), 400)

    def has_written(self, entries: int) -> None:
        """Return whether the log has this number of entries, of any drivers."""
        wait_for(lambda: self._living() != "" and len(self.log()) >= entries, 400)

    def _living(self) -> str:
        """Return the output so far of a driver that must still run."""
        assert self.driver.poll() is None, self.output()[-4000:]
        return self.output()

    def output(self) -> str:
        return self._started.output(self.driver)

    def log(self) -> list[LogEntry]:
        """Return all entries of the job's log, by any driver."""
        store = open_store(str(self._checkpoints))
        log = JobLog(store, JobId("numbers"))
        paths = sorted(store.list(log.folder))
        return [decode_entry(store.get(path), path).entry for path in paths]

    def checkpointed_after(self, owner: str) -> None:
        """Wait until a driver other than `owner` has completed a checkpoint."""
        wait_for(lambda: self._newest_of_another(owner), 400)

    def _newest_of_another(self, owner: str) -> bool:
        assert self.driver.poll() is None, self.output()[-4000:]
        newest = self.log()[-1]
        return newest.owner != owner and isinstance(newest, CheckpointCompleted)

    def ends_exactly(self) -> tuple[int, int]:
        """Check the results; return (restarts, unauthenticated peers) of the run."""
        assert self.driver.wait(400) == 0, self.output()[-4000:]
        frame = pl.read_parquet(f"{self._out}/**/*.parquet")
        counted = sorted(zip(frame["k"].to_list(), frame["n"].to_list(), strict=True))
        # Two splits, of which each counts its own rows from 0.
        halves = [self._rows - self._rows // 2, self._rows // 2]
        per_key = [sum(len(range(key, half, KEYS)) for half in halves) for key in range(KEYS)]
        assert counted == [(key, n + 1) for key in range(KEYS) for n in range(per_key[key])]
        restarts, strangers = json.loads(Path(f"{self._said}.end").read_text())
        return restarts, strangers
