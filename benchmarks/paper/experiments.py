"""All experiments, in the order of the page. A further one is a module and a line here."""

from benchmarks.paper import buffer_timeout, checkpoints, latency, stress, throughput, visitors
from benchmarks.paper.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    throughput.EXPERIMENT,
    latency.EXPERIMENT,
    buffer_timeout.EXPERIMENT,
    checkpoints.EXPERIMENT,
    visitors.EXPERIMENT,
    stress.EXPERIMENT,
)
