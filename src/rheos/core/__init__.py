"""The pure core: records, state, operators, tasks, checkpoints, and the contracts of connectors.

Nothing in it uses a clock, a socket, a file or Spark directly; the caller passes them in."""
