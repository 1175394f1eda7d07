"""Fits the costs of a job to its sample: at full load, and at low rates. Pure."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np

from rheos.ops.planning.cost_model import CostModel, WakingCost, fit_full_load, nonnegative_costs
from rheos.ops.planning.load import load_at
from rheos.ops.planning.measurement import Measurement, Phase

_CORE_US = 1_000_000.0


def fit(measurement: Measurement) -> CostModel:
    """Return the costs that fit the phases of a measurement best."""
    model = fit_full_load(measurement)
    return replace(model, waking=_waking_cost(model))


def paced_us(phase: Phase) -> float:
    """Return the processor time of a phase in µs per second, over all slots."""
    return phase.cpu_us / phase.seconds


def _waking_cost(model: CostModel) -> WakingCost:
    """Return the costs of pauses: what the phases at low rates used more than the costs of chains."""
    measurement = model.measurement
    features, spent_us = [], []
    for phase in measurement.paced_phases:
        rate = phase.source_rows / phase.seconds
        load = load_at(model, phase.parallelism, rate, measurement.buffer_timeout_us)
        idle = 1 - load.total_us / phase.parallelism / _CORE_US
        more_us = paced_us(phase) - load.total_us
        if idle > 0 and more_us > 0:
            features.append(astuple(load.waking))
            spent_us.append(more_us / idle)
    if not spent_us:
        return WakingCost()
    return WakingCost(*nonnegative_costs(np.array(features) / np.array(spent_us)[:, None]))
