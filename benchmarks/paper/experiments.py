"""All experiments, in the order of the page. A further one is a module and a line here."""

from benchmarks.paper import throughput
from benchmarks.paper.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (throughput.EXPERIMENT,)
