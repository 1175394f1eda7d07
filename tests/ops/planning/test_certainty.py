"""Errors of a plan are as large as the differences within its sample."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import msgspec
import pytest

from rheos.ops.planning.certainty import Errors, errors_of
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.load import load_at
from rheos.ops.planning.measurement import Measurement, Phase
from rheos.ops.planning.readings import EXACT
from tests.ops.planning.samples import grouping
from tests.ops.planning.test_fitting import PACED

TIMEOUT_US = 10_000


def costlier(phase: Phase, factor: float) -> Phase:
    chains = tuple(msgspec.structs.replace(load, cpu_us=load.cpu_us * factor) for load in phase.chains)
    return msgspec.structs.replace(phase, chains=chains, cpu_us=phase.cpu_us * factor)


def with_halves(phases: Sequence[Phase], factor: float) -> tuple[Phase, ...]:
    """Phases whose second halves cost more than their first ones, by a factor."""
    return tuple(
        msgspec.structs.replace(each, parts=(costlier(each, 1 / factor), costlier(each, factor)))
        for each in phases
    )


def errors(
    measurement: Measurement, slots: int = 2, rate: float = 1e6, rows: float = 1e7, growth: float = 1.0
) -> Errors:
    model = fit(measurement)
    return errors_of(model, load_at(model, slots, rate, TIMEOUT_US), rows, growth)


def test_a_steady_sample_that_fits_the_model_has_no_error() -> None:
    phases = with_halves(grouping().phases, 1.0)
    found = errors(grouping(phases))
    assert found.costs == pytest.approx(0, abs=1e-6)
    assert found.rate == pytest.approx(0, abs=1e-6)


def test_a_sample_whose_halves_differ_has_a_sampling_error() -> None:
    calm, wild = (errors(grouping(with_halves(grouping().phases, each))) for each in (1.02, 1.2))
    assert 0.005 < calm.rate < 0.05
    assert wild.rate > 5 * calm.rate


def test_a_phase_that_the_others_do_not_predict_has_a_model_error() -> None:
    phases = [costlier(each, 1.3) if each.parallelism == 2 else each for each in grouping().phases]
    near, far = (errors(grouping(phases), slots) for slots in (2, 16))
    assert 0.1 < near.rate < 0.5
    # Two doublings beyond the four slots of the sample.
    assert far.rate == pytest.approx(3 * near.rate)


def test_the_cost_of_pauses_has_its_own_error() -> None:
    strange = (costlier(PACED[0], 1.5), *PACED[1:])
    steady, varied = (
        errors(msgspec.structs.replace(grouping(), paced_phases=each), rate=20_000.0)
        for each in (PACED, strange)
    )
    assert steady.rate == varied.rate == pytest.approx(0, abs=1e-6)
    assert varied.costs > steady.costs + 0.1


@pytest.mark.parametrize(("rows", "growth", "doublings"), [(1e6, 1, 0), (8e6, 8, 3), (8e6, 2, 1)])
def test_the_error_of_state_grows_with_the_extrapolation(
    rows: float, growth: float, doublings: int
) -> None:
    measurement = msgspec.structs.replace(grouping(), state_error=0.1, state_rows=1e6)
    expected = ((0.1 * doublings) ** 2 + log(EXACT) ** 2) ** 0.5
    assert errors(measurement, rows=rows, growth=growth).state == pytest.approx(expected)


def test_state_that_was_measured_once_has_no_known_error() -> None:
    assert errors(grouping()).state == float("inf")
    assert errors(grouping(states=())).state == 0


def test_rows_between_slots_vary_as_much_as_in_the_sample() -> None:
    larger = msgspec.structs.replace(
        grouping().phases[-1],
        edges=tuple(
            msgspec.structs.replace(load, size_bytes=load.size_bytes * 1.5)
            for load in grouping().phases[-1].edges
        ),
    )
    assert errors(grouping()).network == pytest.approx(0, abs=1e-9)
    assert errors(grouping([*grouping().phases[:-1], larger])).network > 0.1
