"""`--whatif` changes the assumptions of a plan."""

from __future__ import annotations

import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.planning.assumptions import changed_plan, parse_changes
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.model import PlanTarget, plan_for
from tests.ops.planning.samples import grouping

MODEL = fit(grouping())
TARGET = PlanTarget(2e6)
PLAN = plan_for(MODEL, TARGET)


def test_twice_the_keys_are_twice_the_state() -> None:
    changed = changed_plan(MODEL, TARGET, parse_changes("keys=2x"))
    assert changed.state_bytes == 2 * PLAN.state_bytes
    assert changed.slots == PLAN.slots


def test_half_of_the_machines_have_a_lower_highest_rate() -> None:
    changed = changed_plan(MODEL, TARGET, parse_changes("machines=0.5x"))
    assert changed.slots == round(PLAN.slots / 2)
    assert changed.max_rate < PLAN.max_rate
    assert not changed.feasible


def test_changes_combine() -> None:
    changed = changed_plan(MODEL, TARGET, parse_changes("rate=0.5x, machines=0.5x,bytes=3x,state=4x"))
    assert changed.feasible
    assert changed.target.rate == TARGET.rate / 2
    assert changed.state_bytes == 4 * PLAN.state_bytes
    assert changed.network_bytes_per_s > PLAN.network_bytes_per_s


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("keys", "'keys' is not a change"),
        ("keys=2", "'keys=2' is not a change"),
        ("kees=2x", "unknown quantity 'kees' in --whatif"),
        ("keys=0x", "must be greater than 0"),
        ("keys=2x,keys=2x", "changes 'keys' twice"),
    ],
)
def test_other_text_is_refused(text: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        parse_changes(text)
