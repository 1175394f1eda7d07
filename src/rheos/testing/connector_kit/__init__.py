"""Checks a source or a sink against the contract of connectors, from a test that its author writes.

Each rule is a function and a sentence, with which the failure's message begins. The kit does not check
calls in another order, which only an engine could make. For faults of whole jobs, use
`rheos.testing.simulate`.
"""

from rheos.testing.connector_kit.rules import BrokenRuleError as BrokenRuleError
from rheos.testing.connector_kit.sink_rules import check_sink as check_sink
from rheos.testing.connector_kit.source_rules import check_source as check_source
