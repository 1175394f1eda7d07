"""Hosts of their own on one machine: network namespaces, each joined to a bridge by a cable of its own.

Needs root, and a kernel that has what is needed; `unavailable` says what is missing. All that is made
has a name of this process's own, and goes with `close`.
"""

from __future__ import annotations

import os
import shutil
import subprocess


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True)


class Network:
    """A bridge, on which this process's own network is the host `.1`."""

    def __init__(self) -> None:
        self._name = f"rh{os.getpid() % 100_000}"
        self._prefix = f"10.213.{os.getpid() % 250}"
        self._hosts: list[str] = []
        self._cables: list[str] = []
        self.address = f"{self._prefix}.1"
        _ip("link", "add", self._name, "type", "bridge")
        try:
            _ip("addr", "add", f"{self.address}/24", "dev", self._name)
            _ip("link", "set", self._name, "up")
        except BaseException:
            self.close()
            raise

    def host(self) -> Host:
        """A new one, whose cable is plugged in."""
        number = 11 + len(self._hosts)
        name, cable = f"{self._name}-{number}", f"{self._name}v{number}"
        _ip("netns", "add", name)
        self._hosts.append(name)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._cables.append(cable)
        _ip("link", "set", cable, "master", self._name, "up")
        within = ("-n", name)
        address = f"{self._prefix}.{number}"
        _ip(*within, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip(*within, "link", "set", device, "up")
        return Host(name, cable, address)

    def close(self) -> None:
        """Processes within the hosts have ended. Nothing else is touched, and all of it is tried."""
        for words in (
            *(("netns", "del", name) for name in self._hosts),
            *(("link", "del", cable) for cable in self._cables),
            ("link", "del", self._name),
        ):
            # A cable goes with its host, later than the host itself.
            subprocess.run(["ip", *words], capture_output=True, check=False)


class Host:
    def __init__(self, name: str, cable: str, address: str) -> None:
        self._name = name
        self._cable = cable
        self.address = address

    def within(self, command: list[str]) -> list[str]:
        """The command, as it is run there."""
        return ["ip", "netns", "exec", self._name, *command]

    def unplug(self) -> None:
        _ip("link", "set", self._cable, "down")

    def plug(self) -> None:
        _ip("link", "set", self._cable, "up")

    def worsen(self, *quality: str) -> None:
        """As `tc netem` names it, such as "delay", "50ms", "loss", "1%"; both ways."""
        for command in (
            ["tc", "qdisc", "replace", "dev", self._cable, "root", "netem", *quality],
            self.within(["tc", "qdisc", "replace", "dev", "eth0", "root", "netem", *quality]),
        ):
            subprocess.run(command, capture_output=True, text=True, check=True)


def unavailable(*, netem: bool = False) -> str | None:
    """Why there can be no such networks here; None where there can."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return "network namespaces need root, and the command ip"
    network: Network | None = None
    try:
        network = Network()
        host = network.host()
        if netem:
            host.worsen("delay", "1ms")
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        why = getattr(error, "stderr", None) or str(error)
        return f"this kernel or container allows no such networks: {why.strip()}"
    finally:
        if network is not None:
            network.close()
    return None
