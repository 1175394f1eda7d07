"""The programs of docs/mqtt.md, with another address of the broker. The job is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.mqtt.conftest import Client
from tests.docs.walks import steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "mqtt.md"
URL = "mqtt://localhost:1883"


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.proves(
    "MQTT", faults=["the driver is killed"], slow_because="a driver is killed in a process of its own"
)
def test_alarms_survive_a_kill(mqtt_server: Any, tmp_path: Path) -> None:
    [code] = [step.code for step in steps(PAGE) if step.file == "alarms.py"]
    assert len(code.splitlines()) <= 20
    program = tmp_path / "alarms.py"
    folder = f'checkpoint_interval="1s", checkpoint_dir={str(tmp_path / "checkpoints")!r}'
    code = code.replace('checkpoint_interval="1s"', folder).replace(URL, mqtt_server.url)
    program.write_text(code)
    client = Client(mqtt_server.url)
    client.subscribe("alarms/+")
    sent = 0
    for run in range(2):
        hot = [{"plant": f"p{n}", "celsius": 91.0} for n in range(sent, sent + 5)]
        for each in hot:
            client.put("plants/berlin/t7", {"plant": "cold", "celsius": 20.0}, each)
        if not run:  # The session does not exist yet, so only a retained message reaches the job.
            client.put("plants/berlin/t1", {"plant": "first", "celsius": 99.0}, retain=True)
        with subprocess.Popen([sys.executable, str(program)], cwd=tmp_path) as job:
            if not run:
                wait_for(lambda: "alarms/first" in topics(client), 400)
                for each in hot:
                    client.put("plants/berlin/t7", each)
            sent += 5
            wanted = {f"alarms/p{n}" for n in range(sent)}
            wait_for(lambda wanted=wanted: wanted <= topics(client), 400)
            job.kill()
    client.put("plants/berlin/t1", b"", retain=True)
    client.close()
    assert "alarms/cold" not in topics(client)


def topics(client: Client) -> set[str]:
    return {topic for topic, _, _ in client.received(0)}


def test_the_script_is_planned() -> None:
    [_, code] = PAGE.read_text().split("```sql\n")
    env = rh.Environment(runtime="simulated")
    env.sql_script(code.partition("```")[0])
    plan = str(env.explain())
    assert "MQTT topic plants/+/+" in plan
    assert "topic alarms/{plant}" in plan
