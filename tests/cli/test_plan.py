"""`rheos plan` prints what a job needs, from a stored measurement. The sample itself is tested with
Spark, in `tests/ops/planning/test_sample_run.py`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from rheos.cli.main import app
from rheos.ops.planning.measurement import encode_measurement
from tests.ops.planning.samples import grouping
from tests.ops.planning.test_fitting import PACED


@pytest.fixture
def measurement(tmp_path: Path) -> str:
    file = tmp_path / "grouping.json"
    file.write_bytes(encode_measurement(grouping()))
    return str(file)


def plan(*arguments: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["plan", *arguments])
    return ran.exit_code, ran.stdout, ran.stderr


def test_a_plan_has_resources_costs_machines_and_doubts(measurement: str) -> None:
    code, out, err = plan(measurement, "--for", "200k/s", "--latency", "100ms")
    assert (code, err) == (0, "")
    assert out.startswith("grouping: 200,000 rows/s, 99% below 100 ms\n")
    assert "limited by count -> out (job.py:7)" in out
    assert "prices are placeholders" in out
    assert "the cost of writing is not included" in out


def test_a_plan_for_a_low_rate_shows_the_pauses_of_slots(tmp_path: Path) -> None:
    file = tmp_path / "grouping.json"
    file.write_bytes(encode_measurement(replace(grouping(), paced_phases=PACED)))
    code, out, _ = plan(str(file), "--for", "20k/s")
    assert code == 0
    assert re.search(r"\d+% of a core \(\d+% to \d+%\), \d+% for pauses\n", out)


def test_a_plan_with_other_quantities_is_next_to_it(measurement: str) -> None:
    code, out, _ = plan(measurement, "--for", "1M/s", "--whatif", "keys=2x,machines=0.5x", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["feasible"]
    changed = found["whatif"]["keys=2x,machines=0.5x"]
    assert not changed["feasible"]
    assert changed["slots"] == found["slots"] // 2
    assert changed["state_bytes"] == 2 * found["state_bytes"]


def test_a_rate_that_no_number_of_slots_reaches(measurement: str) -> None:
    code, out, _ = plan(measurement, "--for", "100000M/s")
    assert code == 0
    assert "no number of slots reaches this" in out
    assert "(not enough)" in out


def test_the_users_table_of_instances(measurement: str, tmp_path: Path) -> None:
    table = tmp_path / "instances.toml"
    table.write_text(
        'currency = "EUR"\n[[instance]]\nname = "mine"\ncores = 2\nmemory_gb = 8\nnetwork_gbit = 1\n'
        "price_per_hour = 0.25\n"
    )
    code, out, _ = plan(measurement, "--for", "200k/s", "--instances", str(table))
    assert code == 0
    assert "mine" in out
    assert "0.25 EUR" in out
    assert "placeholders" not in out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--for", "soon"], "'soon' is not a rate"),
        (["--for", "1/s", "--whatif", "keys"], "'keys' is not a change"),
        (["--for", "1/s", "--instances", "missing.toml"], "missing.toml"),
    ],
)
def test_wrong_options_are_refused_before_the_sample(
    measurement: str, arguments: list[str], error: str
) -> None:
    code, out, err = plan(measurement, *arguments)
    assert (code, out) == (2, "")
    assert error in err


def test_a_missing_measurement_is_refused() -> None:
    code, _, err = plan("missing.json", "--for", "1/s")
    assert code == 2
    assert "the measurement 'missing.json' cannot be read" in err
