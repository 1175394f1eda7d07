"""Servers of object stores: moto, and those that tests start if their programs are installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from rheos.ops.servers.server import free_port
from tests.connectors.faulting_proxy import FaultingProxy
from tests.waiting import wait_for

AZURITE = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDX"
    "J1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:{port}/"
    "devstoreaccount1;"
)
"""Address of Azurite, with its published account."""
SCHEMES = {"moto": "s3", "versitygw": "s3", "gcs": "gs", "azurite": "abfs"}
DIALECTS = {"s3": "s3", "gs": "gcs", "abfs": "azure"}


def each_server(*faults: str) -> list[Any]:
    """Return the parameters of a fixture that runs on each server; all but moto are slow."""
    moto = pytest.param("moto", marks=pytest.mark.proves("moto", faults=list(faults)))
    others = {"versitygw": "versitygw", "gcs": "fake-gcs-server", "azurite": "Azurite"}
    because = "the server is no Python package"
    return [moto] + [
        pytest.param(
            kind,
            marks=[
                pytest.mark.slow,
                pytest.mark.proves(server, faults=list(faults), slow_because=because),
            ],
        )
        for kind, server in others.items()
    ]


@contextmanager
def new_bucket(
    kind: str, folder: Path, patch: pytest.MonkeyPatch, proxy: FaultingProxy | None = None
) -> Iterator[str]:
    """Start a server. Clients reach it through the proxy, if any. Yield the URL of an empty bucket."""
    port = free_port()
    seen = port
    scheme = SCHEMES[kind]
    if proxy is not None:
        proxy.target_port, proxy.dialect, seen = port, DIALECTS[scheme], proxy.port
    address = f"http://127.0.0.1:{seen}"
    for name, value in {
        "AWS_ACCESS_KEY_ID": "access",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "ROOT_ACCESS_KEY": "access",
        "ROOT_SECRET_KEY": "secret",
        "STORAGE_EMULATOR_HOST": address,
        "AZURE_STORAGE_CONNECTION_STRING": AZURITE.format(port=seen),
    }.items():
        patch.setenv(name, value)
    for each in ("s3", "gs", "abfs"):  # Forget clients of servers that have ended.
        fsspec.get_filesystem_class(each).clear_instance_cache()
    end = _start(kind, port, seen, folder)
    try:
        system = fsspec.filesystem(scheme, skip_instance_cache=True)
        name = f"bucket-{uuid4().hex[:8]}"
        system.mkdir(name)
        yield f"{scheme}://{name}"
    finally:
        end()


def _start(kind: str, port: int, seen: int, folder: Path) -> Callable[[], object]:
    """Start a server, and return the function that ends it."""
    if kind == "moto":
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        server.start()
        return server.stop
    meta, data = folder / "meta", folder / "data"
    versitygw = ["versitygw", "--port", f"127.0.0.1:{port}", "posix", "--sidecar", str(meta), str(data)]
    gcs = ["fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    gcs += ["-backend", "memory", "-public-host", f"127.0.0.1:{seen}"]
    azurite = ["azurite-blob", "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
    azurite += ["--location", str(data), "--skipApiVersionCheck"]
    command = {"versitygw": versitygw, "gcs": gcs, "azurite": azurite}[kind]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    meta.mkdir()
    data.mkdir()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def end() -> None:
        process.terminate()
        process.wait(30)

    wait_for(answers, 60)
    return end
