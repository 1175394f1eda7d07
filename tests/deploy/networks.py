"""Hosts on one machine: network namespaces, each connected to a bridge by a cable. Needs root and some
features of the kernel; `unavailable` returns what is missing. All names contain this process's id, and
`close` removes everything."""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import count
from pathlib import Path

import psutil

from rheos.ops.chaos.processes import ended_meanwhile
from tests.deploy.cables import Quality, WorseCable

_made = count()


def _run(*words: str) -> None:
    subprocess.run(words, capture_output=True, text=True, check=True)


class Network:
    """Bridge, on which this process is the host `.1`."""

    def __init__(self) -> None:
        number = next(_made)
        self._name = f"rh{os.getpid() % 100_000}n{number}"
        self._prefix = f"10.{213 + number % 40}.{os.getpid() % 250}"
        self._hosts: list[str] = []
        self._cables: list[str] = []
        self._worse: list[WorseCable] = []
        self.address = f"{self._prefix}.1"
        _run("ip", "link", "add", self._name, "type", "bridge")
        try:
            _run("ip", "addr", "add", f"{self.address}/24", "dev", self._name)
            _run("ip", "link", "set", self._name, "up")
        except BaseException:
            self.close()
            raise

    def host(self, quality: Quality | None = None) -> Host:
        """Create a host and connect its cable, which by default has no faults."""
        number = 11 + len(self._hosts)
        name, cable, end = f"{self._name}-{number}", f"{self._name}v{number}", f"{self._name}e{number}"
        _run("ip", "netns", "add", name)
        self._hosts.append(name)
        if quality is None:
            _run("ip", "link", "add", cable, "type", "veth", "peer", "name", end)
        else:
            self._worse.append(WorseCable(cable, end, quality, seed=number))
        self._cables.append(cable)
        _run("ip", "link", "set", end, "netns", name, "name", "eth0")
        _run("ip", "link", "set", cable, "master", self._name, "up")
        within = ("ip", "-n", name)
        address = f"{self._prefix}.{number}"
        _run(*within, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run(*within, "link", "set", device, "up")
        return Host(name, cable, address, None if quality is None else self._worse[-1])

    def close(self) -> None:
        """Remove everything, once the processes in the hosts have ended. Continues after errors."""
        for worse in self._worse:
            worse.close()
        for words in (
            *(("netns", "del", name) for name in self._hosts),
            *(("link", "del", cable) for cable in self._cables),
            ("link", "del", self._name),
        ):
            # A cable goes with its host, later than the host itself.
            subprocess.run(["ip", *words], capture_output=True, check=False)


class Host:
    def __init__(self, name: str, cable: str, address: str, worse: WorseCable | None) -> None:
        self.name = name
        self.cable = cable
        self.address = address
        self.worse = worse

    def within(self, command: list[str]) -> list[str]:
        """Return a command that runs this one in the host's network."""
        return ["ip", "netns", "exec", self.name, *command]

    def alone(self, command: list[str]) -> list[str]:
        """Return a command that also has its own host name, process ids and mounts."""
        unshared = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        named = ["sh", "-c", f'hostname {self.name} && exec "$@"', "sh"]
        return self.within([*unshared, *named, *command])

    def runs(self, words: str) -> bool:
        """Return whether a process there has a command with these words."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True
        )
        return any(words in _command(int(process)) for process in found.stdout.split())

    def unplug(self) -> None:
        _run("ip", "link", "set", self.cable, "down")

    def plug(self) -> None:
        _run("ip", "link", "set", self.cable, "up")

    def cover(self, process: int, folder: Path, by: Path) -> None:
        """Let a command that runs `alone` here see another folder in place of `folder`."""
        _mount(process, "mount", "--bind", str(by), str(folder))

    def uncover(self, process: int, folder: Path) -> None:
        _mount(process, "umount", "--lazy", str(folder))


def _command(process: int) -> str:
    with ended_meanwhile():
        return " ".join(psutil.Process(process).cmdline())
    return ""


def _mount(process: int, *words: str) -> None:
    spaces = f"/proc/{process}/ns"
    _run("nsenter", f"--mount={spaces}/mnt", f"--pid={spaces}/pid_for_children", *words)


def unavailable(quality: Quality | None = None) -> str | None:
    """Return why such networks are not possible here; None if they are."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return "network namespaces need root, and the command ip"
    network: Network | None = None
    try:
        network = Network()
        host = network.host(quality)
        _run(*host.alone(["true"]))
    except (subprocess.CalledProcessError, OSError) as error:
        why = getattr(error, "stderr", None) or str(error)
        return f"this kernel or container allows no such networks: {why.strip()}"
    finally:
        if network is not None:
            network.close()
    return None
