"""Machines are chosen by cores, memory, disk, network and price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.machines import EXAMPLE, Instance, load_instances, machines_for
from rheos.ops.planning.model import PlanTarget, plan_with
from tests.ops.planning.samples import grouping

PLAN = replace(plan_with(fit(grouping()), PlanTarget(1e6), 15), memory_bytes_per_slot=1e9)
SMALL = Instance("small", 4, 16, 10, 100, 1.0)


def test_a_slot_has_a_core_and_so_has_the_driver() -> None:
    [machines] = machines_for(PLAN, [SMALL])
    assert (machines.count, machines.reason, machines.price_per_hour) == (4, "cores", 4.0)


def test_memory_disk_and_network_may_need_more_machines() -> None:
    [memory] = machines_for(replace(PLAN, memory_bytes_per_slot=6e9), [SMALL])
    assert (memory.count, memory.reason) == (8, "memory")
    [disk] = machines_for(replace(PLAN, disk_bytes_per_slot=60e9), [SMALL])
    assert (disk.count, disk.reason) == (15, "disk")
    [network] = machines_for(replace(PLAN, network_bytes_per_s=5.9e9), [SMALL])
    assert (network.count, network.reason) == (8, "network")


def test_a_kind_without_room_for_a_slot_is_omitted_and_the_cheapest_is_first() -> None:
    kinds = machines_for(replace(PLAN, memory_bytes_per_slot=20e9), EXAMPLE.instances)
    assert "small" not in [machines.instance.name for machines in kinds]
    prices = [machines.price_per_hour for machines in kinds]
    assert prices == sorted(prices)


def test_the_table_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "instances.toml"
    file.write_text(
        'currency = "EUR"\n[[instance]]\nname = "a"\ncores = 2\nmemory_gb = 8\nnetwork_gbit = 1\n'
    )
    table = load_instances(file)
    assert table.currency == "EUR"
    assert list(table.instances) == [Instance("a", 2, 8, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "instance = 3",
        "[[instance]]\nname = 'a'",
        "{",
        "instance = []",
        "[[instance]]\nname = 'a'\ncores = 0\nmemory_gb = 8\nnetwork_gbit = 1",
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "instances.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"instances\.toml"):
        load_instances(file)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_instances(tmp_path / "missing.toml")
