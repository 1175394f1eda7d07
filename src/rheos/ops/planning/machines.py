"""Machines for a plan, from a table of instances that the user edits. Pure, except `load_instances`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import msgspec

from rheos.core.errors import ConfigurationError
from rheos.ops.planning.model import CapacityPlan

_MAX_FILE_BYTES = 2**20
_USABLE_MEMORY = 0.85
"""Share of a machine's memory for workers; the rest is for the system and for Spark."""
_USABLE_NETWORK = 0.6
"""Share of a machine's bandwidth for rows; checkpoints and outside systems use the network, too."""
_DRIVER_CORES = 1
_GB = 1e9


class Instance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of machine."""

    name: str
    cores: int
    memory_gb: float
    network_gbit: float
    disk_gb: float = 0.0
    price_per_hour: float = 0.0


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    instance: list[Instance]
    currency: str = ""


@dataclass(frozen=True)
class InstanceTable:
    instances: Sequence[Instance]
    currency: str = ""


@dataclass(frozen=True)
class Machines:
    """The number of machines of one kind that a plan needs."""

    instance: Instance
    count: int
    reason: str
    """Resource that determines the number: cores, memory, disk or network."""
    price_per_hour: float


EXAMPLE = InstanceTable(
    (
        Instance("small", 4, 16, 5, 100, 1.0),
        Instance("medium", 8, 32, 10, 200, 2.0),
        Instance("large", 16, 64, 12.5, 400, 4.0),
        Instance("memory", 8, 64, 10, 200, 2.6),
    ),
    "units",
)
"""Table without `--instances`. Its prices are placeholders."""


def load_instances(file: Path) -> InstanceTable:
    """Return the table of a TOML file. Raise ConfigurationError if it cannot be read or is invalid."""
    try:
        data = file.read_bytes()
        if len(data) > _MAX_FILE_BYTES:
            raise ConfigurationError(f"the table of instances {str(file)!r} is larger than 1 MiB")
        table = msgspec.convert(tomllib.loads(data.decode("utf-8")), _Table, strict=False)
    except OSError as error:
        raise ConfigurationError(
            f"the table of instances {str(file)!r} cannot be read: {error.strerror}"
        ) from None
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigurationError(
            f"{file}: {error}",
            hint="write one [[instance]] for each kind of machine, with name, cores, memory_gb, "
            "network_gbit, disk_gb and price_per_hour",
        ) from None
    for instance in table.instance:
        numbers = (instance.cores, instance.memory_gb, instance.network_gbit)
        if min(numbers) <= 0 or min(instance.disk_gb, instance.price_per_hour) < 0:
            raise ConfigurationError(
                f"{file}: the instance {instance.name!r} has a size or a price that is too small",
                hint="cores, memory_gb and network_gbit must be greater than 0",
            )
    if not table.instance:
        raise ConfigurationError(f"{file}: the table has no [[instance]]")
    return InstanceTable(tuple(table.instance), table.currency)


def machines_for(plan: CapacityPlan, instances: Sequence[Instance]) -> list[Machines]:
    """Return the number of machines of each kind, the cheapest first. Kinds on which a slot does not
    fit are omitted."""
    fitting = (_machines(plan, instance) for instance in instances)
    return sorted(
        (machines for machines in fitting if machines is not None),
        key=lambda machines: (machines.price_per_hour, machines.count),
    )


def _machines(plan: CapacityPlan, instance: Instance) -> Machines | None:
    memory = instance.memory_gb * _GB * _USABLE_MEMORY
    disk = instance.disk_gb * _GB
    per_machine = {
        "cores": instance.cores,
        "memory": int(memory / plan.memory_bytes_per_slot) if plan.memory_bytes_per_slot else None,
        "disk": int(disk / plan.disk_bytes_per_slot) if plan.disk_bytes_per_slot else None,
    }
    if any(slots is not None and slots < 1 for slots in per_machine.values()):
        return None
    counts = {
        resource: ceil((plan.slots + (_DRIVER_CORES if resource == "cores" else 0)) / slots)
        for resource, slots in per_machine.items()
        if slots is not None
    }
    bandwidth = instance.network_gbit * 1e9 / 8 * _USABLE_NETWORK
    traffic = plan.network_bytes_per_s + plan.checkpoint_bytes_per_s
    counts["network"] = max(1, ceil(traffic / bandwidth))
    reason = max(counts, key=lambda resource: counts[resource])
    count = counts[reason]
    return Machines(instance, count, reason, count * instance.price_per_hour)
