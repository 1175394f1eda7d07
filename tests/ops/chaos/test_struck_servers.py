"""Chaos injects faults into the links to a job's servers, and into their processes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import psutil
import pytest

import rheos as rh
from rheos.ops import chaos
from rheos.ops.chaos.faulty_proxy import LinkFault
from rheos.ops.chaos.plan import Fault
from rheos.ops.chaos.struck_servers import ServerProcess, StruckServer, links_to, redirected
from tests.ops.chaos.conftest import Started, wait_for

SLEEP = "import time; time.sleep(600)"
WITH_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"


def test_chaos_offers_every_link_fault() -> None:
    assert {fault.value for fault in Fault if fault.of_link} == {fault.value for fault in LinkFault}


def test_the_proxy_replaces_an_address_in_arguments_and_environment() -> None:
    environment = {"SHOP": "postgresql://ada@db.shop:5432/shop", "OTHER": "mydb.shop:5432", "N": "1"}
    with links_to(["db.shop:5432", "127.0.0.1:63"]) as (shop, store):
        arguments, changed = redirected(
            [shop, store], ["redis://127.0.0.1:63/0", "127.0.0.1:6379"], environment
        )
        assert arguments == [f"redis://{store.redirected}/0", "127.0.0.1:6379"]
        assert changed == {"SHOP": f"postgresql://ada@{shop.redirected}/shop"}
        with pytest.raises(rh.ConfigurationError, match=r"neither .* has the address db.shop:5432"):
            redirected([shop], ["a"], {"OTHER": "mydb.shop:5432", "MORE": "db.shop:54321"})


@pytest.mark.parametrize("address", ["5432", "host", "host:0", "host:99999", ":5432"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(rh.ConfigurationError, match="not the address of a server"), links_to([address]):
        pass


def test_server_faults_need_the_option_that_names_a_server() -> None:
    for fault, option in ((Fault.CUT, "--link"), (Fault.SERVER, "--server-pid")):
        with pytest.raises(rh.ConfigurationError) as raised:
            chaos.Plan(["job"], faults=frozenset({fault}))
        assert option in str(raised.value)


def test_all_processes_of_a_server_are_paused_and_resumed(started: Started) -> None:
    root = started.python("-c", WITH_A_CHILD)
    wait_for(lambda: psutil.Process(root.pid).children())
    server = ServerProcess(root.pid)
    processes = [psutil.Process(root.pid), *psutil.Process(root.pid).children()]

    def all_are(statuses: Sequence[str]) -> bool:
        return all(process.status() in statuses for process in processes)

    server.strike(Fault.SERVER)
    wait_for(lambda: all_are([psutil.STATUS_STOPPED]))
    server.heal()
    wait_for(lambda: not all_are([psutil.STATUS_STOPPED]))
    processes[1].kill()
    root.kill()
    root.wait()
    server.strike(Fault.SERVER)  # A process that has ended is ignored.
    server.heal()
    with pytest.raises(rh.ConfigurationError, match="cannot be stopped"):
        ServerProcess(root.pid)


class RecordingServer(StruckServer):
    name = "the link to a server"

    def __init__(self) -> None:
        self.done: list[str] = []

    def strike(self, fault: Fault) -> None:
        self.done.append(fault)

    def heal(self) -> None:
        self.done.append("healed")


def test_links_are_untouched_if_the_job_never_runs() -> None:
    link = RecordingServer()
    plan = chaos.Plan(
        [sys.executable, "-c", "pass"], faults=frozenset({Fault.SLOW}), links=[link], start_within_s=60
    )
    assert chaos.run(plan).ok
    assert link.done == []
