"""The cost of replaying a key with many timers depends on what each step changes."""

from __future__ import annotations

from pathlib import Path

import pytest

import rheos as rh
from tests.ops.forks.stopped_job import PROGRAM, stopped, write_input

REMINDERS = """

class Remind(rh.KeyedProcessFunction):
    total = rh.ValueState(int, default=0)

    def process_element(self, order: Order, ctx: rh.KeyedContext) -> Iterator[Order]:
        self.total.value += order.amount
        ctx.timers.register(order.at + 200)
        yield order

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Order]:
        yield Order(ctx.key, self.total.value, timestamp)


env = rh.Environment("""
PROCESSED = 'orders.key_by("user").process(Remind()).uid("remind").sink_to(SINK, uid="reminded")\n'
TIMERS = 300


def test_unchanged_rows_of_state_are_shared_between_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    Path("in").mkdir()
    program = PROGRAM.replace("\nenv = rh.Environment(", REMINDERS, 1)
    program = "from collections.abc import Iterator\n" + program.replace(
        'env.execute("orders")', f'{PROCESSED}env.execute("orders")'
    )
    Path("job.py").write_text(program)
    write_input("1", *(("ada", 1, 1 + at // 2) for at in range(2 * TIMERS)))
    stopped("job.py")
    write_input("2", *(("ada", 1, TIMERS + 1 + at) for at in range(5)))
    steps = list(rh.debug("orders", "ada", operator="remind", against="job.py", checkpoint_dir="kept"))
    assert len(steps[0].before["timers"].rows) > 100
    for step in steps:
        old, new = step.before["timers"].rows, step.after["timers"].rows
        same = set(map(id, old)) & set(map(id, new))
        gone, come = len(old) - len(same), len(new) - len(same)
        by_timers = [change for change in step.changes if change.state == "timers"]
        assert sorted((change.before is None, change.after is None) for change in by_timers) == sorted(
            [(True, False)] * come + [(False, True)] * gone
        )
        assert gone + come == 1
    rows = [step for step in steps if step.row is not None]
    assert [step.row["at"] + 200 for step in rows if step.row] == [
        change.after["timestamp_ms"]
        for step in rows
        for change in step.changes
        if change.state == "timers" and change.after is not None
    ]
