"""The pure core: records, state, operators, tasks, checkpoints, and the contracts of connectors.

Nothing in it knows a clock, a socket, a file or Spark; these are handed in."""
