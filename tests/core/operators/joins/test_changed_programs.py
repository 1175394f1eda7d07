"""What stored rows of a join say of a program that joins otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.core.checkpoint.compatibility import Verdict, compare, refusals
from rheos.core.operators.joins.interval import IntervalJoinSpec
from rheos.core.protocol.ids import OperatorId
from tests.core.operators.joins.test_interval import operator

_ID = OperatorId("interval_join-1")


def declared(how: Any, **bounds: int) -> Any:
    join = operator(how, **bounds)
    spec = join._spec
    assert isinstance(spec, IntervalJoinSpec)
    return {_ID: spec.states(join.ctx.ports)}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_bounds_may_change(how: str) -> None:
    findings = compare(declared(how), declared(how, lower=-50, upper=7), {})
    assert {finding.verdict for finding in findings} == {Verdict.SAME}


@pytest.mark.parametrize(("old", "new"), [("inner", "left"), ("left", "full"), ("right", "left")])
def test_rows_that_do_not_say_whether_they_had_a_partner_are_not_kept_without_one(
    old: str, new: str
) -> None:
    refused = refusals(compare(declared(old), declared(new), {}), allow_dropped=True)
    assert refused is not None
    assert "__matched" in str(refused)


@pytest.mark.parametrize(("old", "new"), [("left", "inner"), ("full", "right")])
def test_less_may_be_kept(old: str, new: str) -> None:
    assert refusals(compare(declared(old), declared(new), {}), allow_dropped=False) is None
