"""Atomic writes of files in HDFS: one winner and nothing left, whatever answer is lost."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from fsspec.implementations.memory import MemoryFileSystem

from rheos.connectors.calls.hadoop_files import HadoopFiles, remote_error
from rheos.connectors.calls.hdfs import NativeHdfs
from rheos.connectors.calls.webhdfs import WebHdfs
from rheos.core.connectors.outages import is_outage
from tests.connectors.object_stores import Faults


class RepeatingClient(HadoopFiles, MemoryFileSystem):  # type: ignore[misc]
    """An HDFS in memory, with faults. Its client repeats a rename whose answer was lost."""

    cachable = False

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.store, self.pseudo_dirs = {}, [""]
        self.faults = faults

    def _rename(self, source: str, target: str, overwrite: bool) -> None:
        try:
            with self.faults.request():
                self._renamed(source, target, overwrite)
        except ConnectionError:
            self._renamed(source, target, overwrite)

    def _renamed(self, source: str, target: str, overwrite: bool) -> None:
        if source not in self.store:
            raise FileNotFoundError(source)
        if target in self.store and not overwrite:
            raise FileExistsError(target)
        self.store[target] = self.store.pop(source)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        with self.faults.request():
            return super().open(path, mode, **options)

    def exists(self, path: str, **options: Any) -> bool:
        with self.faults.request():
            return bool(super().exists(path, **options))

    def rm_file(self, path: str) -> None:
        with self.faults.request():
            super().rm_file(path)


def files(system: RepeatingClient) -> dict[str, bytes]:
    return {path: file.getvalue() for path, file in system.store.items()}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_lost_answer_neither_hides_nor_repeats_a_write(number: int, moment: Any) -> None:
    system = RepeatingClient(Faults(number, moment, ConnectionError))
    written = True
    try:
        system.pipe_file("/log/1", b"own", mode="create")
    except ConnectionError:
        written = False
    assert written == (number == 2)
    assert files(system) == ({"/log/1": b"own"} if written else {})


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_file_of_another_writer_is_never_replaced(number: int, moment: Any) -> None:
    system = RepeatingClient(Faults(number, moment, ConnectionError))
    system.store["/log/1"] = MemoryFileSystem().open("/other", "wb")
    with pytest.raises((FileExistsError, ConnectionError)):
        system.pipe_file("/log/1", b"own", mode="create")
    assert files(system)["/log/1"] == b""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("org.apache.hadoop.fs.FileAlreadyExistsException", FileExistsError),
        ("java.io.FileNotFoundException", FileNotFoundError),
        ("AccessControlException", PermissionError),
        ("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", OSError),
        ("java.io.IOException", OSError),
    ],
)
def test_an_error_of_a_server_has_its_kind_and_one_line(kind: str, expected: type[OSError]) -> None:
    error = remote_error(kind, "why it failed\n\tat a.b.C.d(C.java:1)")
    assert type(error) is expected
    assert "why it failed" in str(error)
    assert "C.java" not in str(error)
    assert not is_outage(error)


@pytest.mark.parametrize("kind", ["SafeModeException", "StandbyException", "RetriableException"])
def test_a_server_that_starts_is_an_outage(kind: str) -> None:
    assert is_outage(remote_error(f"org.apache.hadoop.ipc.{kind}", "it starts"))


def test_a_cluster_without_a_data_node_is_an_outage() -> None:
    message = "File /a could only be written to 0 of the 1 minReplication nodes"
    assert is_outage(remote_error("java.io.IOException", message))


@pytest.mark.parametrize(
    "error",
    [
        OSError("RPC listener disconnected"),
        OSError("early eof"),
        OSError("Connection reset by peer (os error 104)"),
        RuntimeError('DataTransferError("Datanode connection closed while waiting for ack")'),
        RuntimeError('OperationFailed("Failed to complete file in time")'),
        RuntimeError('BlocksNotFound("/a")'),
        RuntimeError('FatalRPCError("org.apache.hadoop.ipc.StandbyException", "it starts")'),
    ],
)
def test_a_broken_connection_of_the_native_client_is_an_outage(error: Exception) -> None:
    assert is_outage(NativeHdfs("namenode", 8020).os_error(error))


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("ChecksumError"),
        RuntimeError("NoSASLMechanism"),
        RuntimeError('FatalRPCError("org.apache.hadoop.ipc.RpcServerException", "too old")'),
    ],
)
def test_another_error_of_the_native_client_is_an_os_error(error: Exception) -> None:
    known = NativeHdfs("namenode", 8020).os_error(error)
    assert isinstance(known, OSError)
    assert not is_outage(known)


def test_a_broken_connection_of_webhdfs_is_an_outage() -> None:
    system = WebHdfs("gateway", 9870, skip_instance_cache=True)
    response = requests.Response()
    response.status_code = 503
    unavailable = requests.HTTPError("503 Server Error", response=response)
    for error in (
        requests.ReadTimeout("slow"),
        requests.ConnectionError("refused"),
        requests.exceptions.ChunkedEncodingError("it ended early"),
        unavailable,
    ):
        assert is_outage(system.os_error(error))
    response.status_code = 404
    assert not is_outage(system.os_error(unavailable))
