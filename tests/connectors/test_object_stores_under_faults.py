"""Checkpoints, savepoints and files on object stores whose requests fail, through a faulting proxy."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

import rheos as rh
from rheos import testing
from rheos.connectors import files
from rheos.connectors.calls import file_systems, store_retries
from rheos.connectors.calls.bounded_calls import UNDER_WAY
from rheos.connectors.calls.file_systems import BoundedFileSystem, url_to_fs
from rheos.connectors.calls.store_retries import STORE_RETRIES
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import AttemptStarted
from rheos.core.metrics import declarations as f
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.core.protocol.ports import Content
from rheos.runtimes.host.process_metrics import driver_readings
from rheos.runtimes.host.stores import FsspecStore, check_writable, open_store
from rheos.runtimes.simulated import world
from rheos.runtimes.simulated.invariants import WatchedStore
from tests.connectors import faulting_proxy
from tests.connectors.faulting_proxy import FaultingProxy, HttpFault, Request, Storm
from tests.connectors.ports import read_all, sink_context
from tests.connectors.store_servers import each_server, new_bucket
from tests.connectors.test_files_on_object_stores import JOB, SCHEMA, rows, visible
from tests.runtimes.host import test_stores

PASSING = set(HttpFault) - {HttpFault.SLOW, HttpFault.STALE}
FAULTS = (
    "503 SlowDown, 500, 502 and 504",
    "connections end before and after the effect of a request",
    "truncated answers",
    "expired credentials",
)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultingProxy]:
    for module in (file_systems, store_retries):
        monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.002)
    monkeypatch.setattr(file_systems, "FIRST_WAIT_S", 0.001)
    with FaultingProxy() as proxy:
        yield proxy


@pytest.fixture(params=each_server(*FAULTS))
def bucket(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    proxy: FaultingProxy,
) -> Iterator[str]:
    with new_bucket(request.param, tmp_path, monkeypatch, proxy) as url:
        yield url
        proxy.strike = lambda request: None


def leftovers(url: str) -> list[str]:
    """Return the uploads and staged objects below a URL."""
    system, path = fsspec.core.url_to_fs(url)
    system.invalidate_cache()
    staged = [file for file in system.find(path) if "/.rheos-staging/" in file]
    if url.startswith("s3"):
        found = system.call_s3("list_multipart_uploads", Bucket=path.partition("/")[0])
        staged += [each["Key"] for each in found.get("Uploads", ())]
    return staged


def accepted(bucket: str) -> None:
    """Make a request, so that the service has accepted the credentials."""
    url_to_fs(bucket)[0].exists(bucket)
    open_store(f"{bucket}/first").put("a", b"")


def retried() -> dict[tuple[str, ...], float]:
    return {reading.at: reading.value for reading in STORE_RETRIES.readings(f.STORE_RETRIES)}  # type: ignore[misc]


def test_a_store_keeps_its_contract_in_a_storm(bucket: str, proxy: FaultingProxy) -> None:
    accepted(bucket)
    kept = test_stores.TestContract()
    cases = [name for name in dir(kept) if name.startswith("test_") and "many_writers" not in name]
    for seed, name in enumerate(cases):
        proxy.strike = Storm(seed, PASSING)
        getattr(kept, name)(open_store(f"{bucket}/{name}"))
    assert len(proxy.struck) >= 5


def test_a_conditional_write_whose_answer_is_lost_is_found_to_be_its_own(
    bucket: str, proxy: FaultingProxy
) -> None:
    accepted(bucket)
    store = open_store(f"{bucket}/checkpoints")
    for fault in (HttpFault.RESET_AFTER, HttpFault.ERROR_AFTER):
        proxy.strike = once(fault, "PUT", "POST")
        path = f"log/{fault}"
        assert store.put_if_absent(path, b"ours")
        assert not store.put_if_absent(path, b"theirs")
        assert store.get(path) == b"ours"
    check_writable(store, bucket)


@pytest.mark.parametrize("seed", range(2))
def test_the_sink_publishes_each_row_once_in_a_storm(
    bucket: str, proxy: FaultingProxy, seed: int
) -> None:
    accepted(bucket)
    url = f"{bucket}/out"
    proxy.strike = Storm(seed, PASSING)
    sink = files.sink(url, format="jsonl").prepared(SCHEMA, (JOB, "out"))
    committer: Any = sink.committer()
    committer.check()
    committer.begin()
    writer = sink.open(sink_context(SCHEMA))
    for epoch in range(1, 4):
        writer.write(rows(epoch))
        committables = writer.prepare(CheckpointId(epoch))
        committer.commit(committables)
        committer.commit(committables)
    writer.write(rows(99))
    writer.close()
    committer.abort_stale(JOB, Attempt(1), [])
    found = read_all(files.source(url, schema=SCHEMA, format="jsonl"))
    assert sorted(row["n"] for row in found) == [1, 2, 3]
    proxy.strike = lambda request: None
    assert visible(url) == [1, 2, 3]
    assert leftovers(url) == []
    assert STORE_RETRIES.total() > 0


def simulate(bucket: str, monkeypatch: pytest.MonkeyPatch, **faults: Any) -> None:
    """Run a simulated job whose checkpoints and output are on the store. Its invariants are checked."""
    on_bucket = FsspecStore(f"{bucket}/checkpoints")

    class Mirrored(WatchedStore):
        """A store whose files are on the bucket, and in memory for those who watch."""

        def put(self, path: str, data: Content) -> None:
            on_bucket.put(path, data)
            super().put(path, data)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            absent = on_bucket.put_if_absent(path, data)
            super().put_if_absent(path, data)
            return absent

        def get(self, path: str) -> bytes:
            found = on_bucket.get(path)
            assert found == super().get(path)
            return found

        def list(self, prefix: str) -> list[str]:
            return on_bucket.list(prefix)

        def delete(self, path: str) -> None:
            on_bucket.delete(path)
            super().delete(path)

    def numbers(env: rh.Environment) -> rh.DataStream:
        made = rh.generator(lambda block: {"n": block.index()}, count=8, rate_per_s=20, splits=1)
        stream = env.from_source(made)
        stream.sink_to(rh.files.sink(f"{bucket}/out", format="jsonl", mode="append"))
        return stream

    monkeypatch.setattr(world, "WatchedStore", Mirrored)
    testing.simulate(numbers, seed=1, parallelism=1, faults=testing.Faults(**faults))


def check_job(bucket: str) -> None:
    """Check that the job has published each row once, and left nothing else."""
    assert visible(f"{bucket}/out") == list(range(8))
    assert leftovers(f"{bucket}/out") == []
    assert open_store(f"{bucket}/checkpoints").list("") != []


def test_a_job_keeps_its_rows_and_its_log_in_a_storm(
    bucket: str, proxy: FaultingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted(bucket)
    proxy.strike = Storm(5, PASSING, share=0.2)
    simulate(bucket, monkeypatch, crash_slot=0.5)
    proxy.strike = lambda request: None
    check_job(bucket)


@pytest.mark.parametrize("requests_before", [20, 45])
def test_a_job_continues_after_its_credentials_have_expired(
    bucket: str, proxy: FaultingProxy, monkeypatch: pytest.MonkeyPatch, requests_before: int
) -> None:
    """The service refuses all requests until a client has read its credentials again."""
    accepted(bucket)
    renewed: list[object] = []
    renew = BoundedFileSystem._renew

    def renew_noted(system: BoundedFileSystem) -> None:
        renew(system)
        renewed.append(system)

    monkeypatch.setattr(BoundedFileSystem, "_renew", renew_noted)
    requests = itertools.count()
    proxy.strike = lambda request: (
        HttpFault.EXPIRED if next(requests) >= requests_before and not renewed else None
    )
    simulate(bucket, monkeypatch)
    assert proxy.struck[HttpFault.EXPIRED] > 0
    assert len(renewed) > 0
    assert any(reason == "credentials" for _, _, reason in retried())
    check_job(bucket)


def test_a_large_file_is_read_whole_although_answers_end_early(
    bucket: str, proxy: FaultingProxy
) -> None:
    accepted(bucket)
    system, path = url_to_fs(f"{bucket}/large")
    data = Random(1).randbytes(300_000)
    with system.open(path, "wb") as file:
        file.write(data)
    proxy.strike = Storm(2, {HttpFault.TRUNCATED, HttpFault.RESET_AFTER, HttpFault.EXPIRED}, share=0.6)
    with system.open(path, "rb") as file:
        assert file.read(100_000) + file.read(50_000) + file.read() == data
    assert system.cat_file(path) == data


def test_a_store_that_fails_is_not_taken_for_an_empty_one(bucket: str, proxy: FaultingProxy) -> None:
    accepted(bucket)
    system, path = url_to_fs(f"{bucket}/out/a")
    system.pipe_file(path, b"1")
    for name in ("isfile", "isdir", "exists", "info", "ls", "find", "glob"):
        system.invalidate_cache()
        proxy.strike = lambda request: HttpFault.ERROR
        with pytest.raises(ConnectionError):
            getattr(system, name)(path)
        proxy.strike = lambda request: None
    kinds = {name: (system.isfile(name), system.isdir(name)) for name in (path, path[:-2], f"{path}b")}
    assert list(kinds.values()) == [(True, False), (False, True), (False, False)]


def test_a_listing_that_lags_hides_no_entry_of_the_log(bucket: str, proxy: FaultingProxy) -> None:
    store = open_store(f"{bucket}/checkpoints")
    log = JobLog(store, JOB)
    assert log.read().next_number == 1
    proxy.strike = lambda request: HttpFault.STALE
    for number in (1, 2):
        claim = AttemptStarted(
            attempt=Attempt(number),
            owner="owner",
            reserved_to=CheckpointId(number),
            origin=None,
            from_checkpoint=None,
            parallelism=1,
            completed=[],
        )
        assert log.append(number, claim)
        assert JobLog(store, JOB).read().next_number == number + 1
    assert proxy.struck[HttpFault.STALE] >= 2


# --- limits ------------------------------------------------------------------------------------------


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: FaultingProxy) -> Iterator[str]:
    with new_bucket("moto", tmp_path, monkeypatch, proxy) as url:
        yield url


def once(fault: HttpFault, *methods: str) -> faulting_proxy.Strike:
    """Strike the first request of these methods."""
    left = [fault]
    return lambda request: left.pop() if left and request.method in methods else None


@pytest.mark.parametrize("fault", [HttpFault.THROTTLED, HttpFault.ERROR, HttpFault.RESET_BEFORE])
def test_a_request_is_repeated_a_limited_number_of_times(
    s3: str, proxy: FaultingProxy, fault: HttpFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"{s3}/checkpoints")
    store.put("a", b"1")
    waits: list[str] = []
    clock = SimpleNamespace(**vars(time) | {"sleep": lambda _: waits.append(shown_wait())})
    monkeypatch.setattr(file_systems, "time", clock)  # Other threads keep theirs.
    proxy.strike = lambda request: fault
    before = STORE_RETRIES.total()
    with pytest.raises(ConnectionError, match=r"cat_file: 10 tries have failed"):
        store.get("a")
    # The HTTP client of s3fs sends a request again on a new connection if an idle one has ended.
    most = store_retries.MOST_TRIES * (2 if fault is HttpFault.RESET_BEFORE else 1)
    assert store_retries.MOST_TRIES <= proxy.struck[fault] <= most
    assert STORE_RETRIES.total() - before == store_retries.MOST_TRIES - 1
    assert any(at[:2] == ("s3", "cat_file") for at in retried())
    assert f.DRIVER_STORE_RETRIES.name in {reading.metric for reading in driver_readings()}
    assert all("checkpoints/a: cat_file is repeated" in wait for wait in waits)
    assert UNDER_WAY.longest_wait() is None
    before = proxy.struck.total()
    with pytest.raises(ConnectionError):
        store.put_if_absent("b", b"1")
    assert store_retries.MOST_TRIES <= proxy.struck.total() - before <= most


def shown_wait() -> str:
    longest = UNDER_WAY.longest_wait()
    assert longest is not None
    return longest[0]


def test_a_slow_answer_is_not_waited_for(
    s3: str, proxy: FaultingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "READ_S", 0.2)
    store = open_store(f"{s3}/checkpoints")
    store.put("a", b"1")
    proxy.strike = once(HttpFault.SLOW, "GET")
    assert store.get("a") == b"1"
    assert proxy.struck[HttpFault.SLOW] == 1
    assert ("s3", "cat_file", "timeout") in retried()


def test_every_client_of_a_job_reads_renewed_credentials(
    s3: str, proxy: FaultingProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary credentials are in the shared file, which another program renews."""
    shared = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))

    def renew(token: str) -> None:
        shared.write_text(
            "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
            f"aws_session_token = {token}\n"
        )

    renew("old")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    tokens: list[str] = []

    def expired(request: Request) -> HttpFault | None:
        tokens.append(request.headers["x-amz-security-token"])
        if len(tokens) <= 40 or tokens[-1] == "new":
            return None
        renew("new")
        return HttpFault.EXPIRED

    proxy.strike = expired
    simulate(s3, monkeypatch)
    assert tokens[0] == "old"
    assert tokens[-1] == "new"
    check_job(s3)


def test_credentials_that_were_never_accepted_are_refused_at_once(
    s3: str, proxy: FaultingProxy
) -> None:
    file_systems._accepted.clear()
    proxy.strike = lambda request: HttpFault.EXPIRED
    with pytest.raises(OSError, match="struck"):
        open_store(f"{s3}/checkpoints").put("a", b"1")
    assert proxy.struck[HttpFault.EXPIRED] == 1


def test_an_upload_that_was_created_twice_is_aborted(s3: str, proxy: FaultingProxy) -> None:
    sink = files.sink(f"{s3}/out", format="jsonl").prepared(SCHEMA, (JOB, "out"))
    proxy.strike = once(HttpFault.RESET_AFTER, "POST")
    writer = sink.open(sink_context(SCHEMA))
    writer.write(rows(1))
    sink.committer().commit(writer.prepare(CheckpointId(1)))
    assert proxy.struck[HttpFault.RESET_AFTER] == 1
    assert visible(f"{s3}/out") == [1]
    assert leftovers(f"{s3}/out") == []
