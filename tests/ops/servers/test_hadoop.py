"""The real Hadoop: HDFS, whose data outlive a killed NameNode, and YARN."""

from __future__ import annotations

import json
from getpass import getuser
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
import pytest

from rheos.ops.servers.hadoop import HadoopCluster
from tests.ops.servers.listening import listening_at
from tests.waiting import wait_for


def path_at(cluster: HadoopCluster, path: str, operation: str) -> str:
    return f"{cluster.web_url.replace('webhdfs', 'http')}/webhdfs/v1{path}?op={operation}"


def test_hdfs_keeps_its_files_when_the_name_node_is_killed(hdfs: HadoopCluster) -> None:
    folder = path_at(hdfs, "/kept-by-the-name-node", f"MKDIRS&user.name={getuser()}")
    with urlopen(Request(folder, method="PUT"), timeout=60) as answer:
        assert json.load(answer) == {"boolean": True}
    hdfs.name_node.kill()
    assert [daemon.running for daemon in hdfs.daemons] == [False, True]
    assert hdfs.log == hdfs.name_node.log
    hdfs.name_node.start()
    assert hdfs.running
    with urlopen(path_at(hdfs, "/", "LISTSTATUS"), timeout=60) as answer:
        found = [each["pathSuffix"] for each in json.load(answer)["FileStatuses"]["FileStatus"]]
    assert "kept-by-the-name-node" in found


def test_every_daemon_listens_on_loopback_alone(hdfs: HadoopCluster) -> None:
    for daemon in hdfs.daemons:
        addresses = listening_at(daemon)
        assert len(addresses) >= 2
        assert set(addresses) == {"127.0.0.1"}


@pytest.mark.slow  # It starts four JVMs, for some 7 s of both processors.
def test_a_whole_cluster_starts_and_leaves_nothing() -> None:
    cluster = HadoopCluster()
    with cluster:
        folder = cluster.folder
        with urlopen(f"{cluster.yarn_url}/ws/v1/cluster/nodes", timeout=60) as answer:
            (node,) = json.load(answer)["nodes"]
        assert node["state"] == "RUNNING"
        for daemon in cluster.daemons:
            assert set(listening_at(daemon)) == {"127.0.0.1"}
        cluster.name_node.kill()
        cluster.start()
        assert cluster.running
    wait_for(lambda: not of_cluster(folder))
    assert not folder.exists()


def of_cluster(folder: Path) -> list[int]:
    """Return the processes that use a folder of a cluster."""
    own = psutil.Process().children(recursive=True)
    return [each.pid for each in own if str(folder) in " ".join(each.cmdline())]
