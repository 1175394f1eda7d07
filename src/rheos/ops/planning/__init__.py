"""Capacity planning: `rheos plan` measures a sample of a job, and predicts the machines for a load.

`sampling` runs the sample, and returns a `Measurement`. `cost_model` fits the cost of each chain to it.
`model` predicts loads from these costs, and searches for the smallest number of slots. `machines`
selects from a table of instances. All of them except `sampling` are pure.
"""
