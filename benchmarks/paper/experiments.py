"""All experiments, in the order of the page. A further one is a module and a line here."""

from benchmarks.paper import (
    buffer_timeout,
    checkpoints,
    kafka_latency,
    latency,
    latency_objective,
    soak,
    state_machine,
    stress,
    throughput,
    visitors,
    yahoo,
)
from benchmarks.paper.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    throughput.EXPERIMENT,
    latency.EXPERIMENT,
    buffer_timeout.EXPERIMENT,
    checkpoints.EXPERIMENT,
    state_machine.EXPERIMENT,
    yahoo.EXPERIMENT,
    visitors.EXPERIMENT,
    stress.EXPERIMENT,
    kafka_latency.EXPERIMENT,
    latency_objective.EXPERIMENT,
    soak.EXPERIMENT,
)
