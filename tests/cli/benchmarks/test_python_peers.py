"""The programs of other systems for Python follow the same rules as that of Rheos."""

from benchmarks.peers import python_program
from rheos.cli.benchmarks import state_machine


def test_rules_are_those_of_the_benchmark() -> None:
    assert python_program.RULES == state_machine.RULES
    assert python_program.INITIAL == state_machine.INITIAL
    assert python_program.TOUR == state_machine.TOUR
