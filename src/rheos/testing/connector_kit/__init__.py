"""Holds a source or a sink to the contract of connectors, from a test of its author's.

Each rule is a function with a sentence for its name: that sentence is what a failure begins with. What
only an engine can do wrong (calls in another order) is not looked at; faults of whole jobs are for
`rheos.testing.simulate`.
"""

from rheos.testing.connector_kit.rules import BrokenRuleError as BrokenRuleError
from rheos.testing.connector_kit.sink_rules import check_sink as check_sink
from rheos.testing.connector_kit.source_rules import check_source as check_source
