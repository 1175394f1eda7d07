"""The sample of a real job: it measures costs, state and keys, and leaves no trace."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from rheos.api.overrides import Overrides
from rheos.core.errors import RheosError
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.model import PlanTarget, plan_for
from rheos.ops.planning.sample_run import measure_sample

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
    import rheos as rh

    def rows(block):
        rng = block.rng()
        return {"k": rng.integers(0, 100, block.rows) % rng.integers(1, 100, block.rows)}

    env = rh.Environment(checkpoint_dir="checkpoints")
    source = rh.generator(rows, rate_per_s=10, schema={"k": int}, splits=8)
    counts = env.from_source(source, name="rows").key_by("k").running(n=rh.agg.count())
    counts.sink_to(rh.files.sink("out"))
    env.execute("counts")
"""


def test_a_sample_of_a_job_with_a_skewed_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(textwrap.dedent(PROGRAM))
    sample = measure_sample(Path("job.py"), [], Overrides(), 8.0, lambda what: None)
    measurement = sample.measurement
    assert measurement.job == "counts"
    assert {(phase.parallelism, phase.batch_rows) for phase in measurement.phases} == {
        (4, 16_384),
        (2, 16_384),
        (1, 16_384),
        (4, 1_024),
    }
    # The rate limit of the source does not count.
    assert all(phase.source_rows / phase.seconds > 1_000 for phase in measurement.phases)
    assert measurement.chains[0].splits == 8
    assert measurement.heaviest_key_share is not None
    assert 0.02 < measurement.heaviest_key_share < 0.2
    [state] = measurement.states
    assert state.keys == pytest.approx(99, abs=1)
    assert plan_for(fit(measurement), PlanTarget(10_000)).slots == 1
    assert [path.name for path in tmp_path.iterdir()] == ["job.py"]


def test_a_source_without_rows_is_too_small_for_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(
        "import rheos as rh\n"
        "env = rh.Environment()\n"
        "env.from_source(rh.collection([{'n': 1}])).collect('rows')\n"
        "env.execute()\n"
    )
    with pytest.raises(RheosError, match="fewer than 1,000 rows"):
        measure_sample(Path("job.py"), [], Overrides(), 2.0, lambda what: None)
