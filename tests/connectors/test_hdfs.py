"""Files and stores on a real HDFS whose NameNode, DataNode or clients fail."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rheos.connectors.calls import file_systems
from rheos.connectors.calls.file_systems import url_to_fs
from rheos.connectors.calls.hdfs import NativeHdfs
from rheos.core.connectors.outages import is_outage
from rheos.core.errors import ConfigurationError
from rheos.ops.chaos.faulty_proxy import FaultyProxy, LinkFault
from rheos.ops.servers.hadoop import HadoopCluster
from rheos.runtimes.driver import waits
from rheos.runtimes.host.stores import open_store
from tests.waiting import wait_for

WRITERS = 6
AT_ONCE = {"dfs.client.failover.max.attempts": "1"}
"""Setting with which the client of HDFS does not wait for a NameNode that is away."""
SCHEMES = pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])


def root(cluster: HadoopCluster, scheme: str) -> str:
    """Return the URL of a new folder."""
    return f"{cluster.url if scheme == 'hdfs' else cluster.web_url}/{uuid4().hex}"


@SCHEMES
@pytest.mark.proves("HDFS", faults=["writers of one name at the same time"])
def test_one_of_many_writers_creates_a_file(hdfs: HadoopCluster, scheme: str) -> None:
    url = root(hdfs, scheme)
    contents = [bytes([n]) * 1000 for n in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as threads:
        created = list(threads.map(lambda data: open_store(url).put_if_absent("log/1", data), contents))
    store = open_store(url)
    assert [store.get("log/1")] == [data for data, own in zip(contents, created, strict=True) if own]
    assert store.list("log") == ["log/1"]
    assert store.unfinished("") == []


@SCHEMES
def test_an_error_has_its_kind(hdfs: HadoopCluster, scheme: str) -> None:
    system, path = url_to_fs(root(hdfs, scheme))
    system.pipe_file(f"{path}/a", b"a")
    system.pipe_file(f"{path}/b", b"b")
    with pytest.raises(FileExistsError, match="already exists"):
        system.mv(f"{path}/a", f"{path}/b")
    with pytest.raises(FileNotFoundError):
        system.mv(f"{path}/missing", f"{path}/c")
    with pytest.raises(OSError, match=r"non empty|not empty"):
        system.rmdir(path)
    assert system.cat_file(f"{path}/b") == b"b"


KILLED = """
import sys
from rheos.connectors.calls.file_systems import url_to_fs
system, path = url_to_fs(sys.argv[1])
system.makedirs(path + "/log", exist_ok=True)
with system.open(path + "/log/.tmp-killed", "wb") as file:
    file.write(b"half")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.proves("HDFS", faults=["a writer is killed"])
def test_a_killed_writer_leaves_a_hidden_file_that_can_be_deleted(hdfs: HadoopCluster) -> None:
    url = root(hdfs, "hdfs")
    command = [sys.executable, "-c", KILLED, url]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        writer.kill()
    store = open_store(url)
    assert store.list("") == []
    assert store.unfinished("") == ["log/.tmp-killed"]
    assert store.unfinished("", idle_s=3600) == []
    store.delete("log/.tmp-killed")
    assert store.unfinished("") == []


@pytest.mark.slow
@pytest.mark.proves(
    "HDFS",
    faults=["the NameNode is killed and started again"],
    slow_because="DataNodes register again after a while",
)
def test_a_name_node_that_is_away_is_an_outage_that_passes(hdfs: HadoopCluster) -> None:
    urls = [root(hdfs, "hdfs"), root(hdfs, "webhdfs")]
    before = [url_to_fs(url, **(AT_ONCE if "web" not in url else {})) for url in urls]
    for system, path in before:
        system.pipe_file(f"{path}/kept", b"kept")
    hdfs.name_node.kill()
    try:
        for (system, path), url in zip(before, urls, strict=True):
            with pytest.raises(ConnectionError) as raised:
                system.pipe_file(f"{path}/new", b"new")
            assert is_outage(raised.value)
            assert url.split("/")[2] in str(raised.value)
    finally:
        hdfs.name_node.start()
    for system, path in before:
        wait_for(lambda system=system, path=path: wrote(system, f"{path}/new"))  # type: ignore[misc]
        assert system.cat_file(f"{path}/kept") == b"kept"
        assert sorted(system.ls(path, detail=False)) == [f"{path}/kept", f"{path}/new"]


def wrote(system: Any, path: str) -> bool:
    """Write a file, and return whether the servers were up."""
    try:
        system.pipe_file(path, b"new")
    except OSError as error:
        if not is_outage(error):
            raise
        return False
    return True


@pytest.mark.proves("HDFS", faults=["the answer to a rename is lost"])
def test_an_entry_whose_answer_was_lost_is_recognised(hdfs: HadoopCluster) -> None:
    with FaultyProxy(int(hdfs.address.split(":")[1])) as proxy:
        system, path = url_to_fs(f"hdfs://127.0.0.1:{proxy.port}/{uuid4().hex}")
        renamed = system._system._rename

        def lose_the_answer(*args: Any) -> None:
            proxy.strike(LinkFault.CUT_FROM_SERVER)
            entry = f"{path}/1"
            direct, _ = url_to_fs(hdfs.url)

            def heal_when_renamed() -> None:
                wait_for(lambda: direct.exists(entry))
                proxy.close_connections()
                proxy.heal()

            healing = threading.Thread(target=heal_when_renamed)
            healing.start()
            with pytest.raises(FileNotFoundError) as raised:
                renamed(*args)
            healing.join()
            raise raised.value

        system._system._rename = lose_the_answer
        system.pipe_file(f"{path}/1", b"own", mode="create")
        system._system._rename = renamed
        with pytest.raises(FileExistsError):
            system.pipe_file(f"{path}/1", b"other", mode="create")
        assert system.cat_file(f"{path}/1") == b"own"
        assert system.ls(path, detail=False) == [f"{path}/1"]


CALLS: dict[str, Callable[[Any, str], object]] = {
    "list": lambda system, path: system.ls(path),
    "make": lambda system, path: system.makedirs(f"{path}/b", exist_ok=True),
    "open": lambda system, path: system.open(f"{path}/c", "wb", overwrite=True),
    "read": lambda system, path: system.cat_file(f"{path}/a"),
}


@pytest.mark.proves("HDFS", faults=["connections to the NameNode end again and again"])
@pytest.mark.parametrize("call", CALLS)
def test_connections_that_end_in_a_call_are_an_outage(hdfs: HadoopCluster, call: str) -> None:
    with FaultyProxy(int(hdfs.address.split(":")[1])) as proxy, ThreadPoolExecutor(1) as thread:
        system, path = url_to_fs(f"hdfs://127.0.0.1:{proxy.port}/{uuid4().hex}", **AT_ONCE)
        system.pipe_file(f"{path}/a", b"a")

        def repeat() -> None:
            while True:
                CALLS[call](system, path)

        failing = thread.submit(repeat)
        while not failing.done():
            proxy.close_connections()
            wait([failing], 0.001)
        error = failing.exception()
        assert error is not None
        assert is_outage(error), error


def test_a_frozen_name_node_holds_no_caller(
    hdfs: HadoopCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "_ALIVE_S", 0.2)
    monkeypatch.setattr(file_systems, "REQUEST", replace(file_systems.REQUEST, limit_s=2.0))
    monkeypatch.setattr(waits, "_CALL_AFTER_S", 0.1)
    url = root(hdfs, "hdfs")
    system, path = url_to_fs(url)
    hdfs.name_node.freeze()
    try:
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(system.exists, path)
            wait_for(lambda: any(url in shown.what for shown in waits.call_wait(1_000)))
            with pytest.raises(TimeoutError, match=url):
                asked.result()
    finally:
        hdfs.name_node.thaw()


SETTING = "<property><name>{}</name><value>{}</value></property>"


@pytest.mark.proves("HDFS", faults=["the first NameNode of a name service is down"])
def test_a_name_service_finds_the_name_node_that_answers(
    hdfs: HadoopCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first NameNode of the service is down."""
    proxy = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    settings = {
        "fs.defaultFS": "hdfs://orders",
        "dfs.nameservices": "orders",
        "dfs.ha.namenodes.orders": "one,two",
        "dfs.namenode.rpc-address.orders.one": "127.0.0.1:1",
        "dfs.namenode.rpc-address.orders.two": hdfs.address,
        "dfs.client.failover.proxy.provider.orders": proxy,
    }
    lines = "".join(SETTING.format(*setting) for setting in settings.items())
    for name in ("core-site.xml", "hdfs-site.xml"):
        (tmp_path / name).write_text(f"<configuration>{lines}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    folder = uuid4().hex
    NativeHdfs.clear_instance_cache()
    try:
        for url, data in ((f"hdfs://orders/{folder}", b"one"), (f"hdfs:///{folder}", b"two")):
            store = open_store(url)
            assert store.put_if_absent("log/1", data) is (data == b"one")
            assert store.get("log/1") == b"one"
    finally:
        NativeHdfs.clear_instance_cache()


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("hdfs://ada@namenode:8020/a", "HADOOP_USER_NAME"),
        ("hdfs:///a", "HADOOP_CONF_DIR"),
        ("webhdfs://ada:secret@namenode:9870/a", "FSSPEC_WEBHDFS_PASSWORD"),
    ],
)
def test_a_url_that_cannot_be_used_says_what_to_set(
    url: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(ConfigurationError) as raised:
        open_store(url)
    assert hint in (raised.value.hint or "")
    assert "ada" not in str(raised.value)
    assert "secret" not in str(raised.value)


FORKED = """
import subprocess, sys
from rheos.connectors.calls.file_systems import url_to_fs
system, path = url_to_fs(sys.argv[1])
system.exists(path)
del system
subprocess.run(["true"], preexec_fn=lambda: None, check=True)
"""


def test_a_forked_process_does_not_wait_for_a_client(hdfs: HadoopCluster) -> None:
    subprocess.run([sys.executable, "-c", FORKED, root(hdfs, "hdfs")], timeout=60, check=True)


def test_a_file_name_may_have_any_character(hdfs: HadoopCluster) -> None:
    system, path = url_to_fs(root(hdfs, "hdfs"))
    name = f"{path}/day=1#2?3 %41"
    system.pipe_file(name, b"1")
    assert system.ls(path, detail=False) == [name]
    again, inner = url_to_fs(system.unstrip_protocol(name))
    assert again.cat_file(inner) == b"1"
