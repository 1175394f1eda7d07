"""Stored rows of a join under a program that joins differently."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.core.checkpoint.compatibility import Verdict, compare, refusals
from rheos.core.operators.joins.interval_join import IntervalJoinSpec
from rheos.core.protocol.ids import OperatorId
from tests.core.operators.joins.test_interval_join import operator

_ID = OperatorId("interval_join-1")


def declared(how: Any, **bounds: int) -> Any:
    join = operator(how, **bounds)
    spec = join._spec
    assert isinstance(spec, IntervalJoinSpec)
    return {_ID: spec.states(join.ctx.ports)}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_the_bounds_of_an_interval_may_change(how: str) -> None:
    findings = compare(declared(how), declared(how, lower=-50, upper=7), {})
    assert {finding.verdict for finding in findings} == {Verdict.SAME}


@pytest.mark.parametrize(("old", "new"), [("inner", "left"), ("left", "full"), ("right", "left")])
def test_an_inner_join_cannot_become_an_outer_join(old: str, new: str) -> None:
    refused = refusals(compare(declared(old), declared(new), {}), allow_dropped=True)
    assert refused is not None
    assert "__matched" in str(refused)


@pytest.mark.parametrize(("old", "new"), [("left", "inner"), ("full", "right")])
def test_unused_columns_may_be_dropped(old: str, new: str) -> None:
    assert refusals(compare(declared(old), declared(new), {}), allow_dropped=False) is None
