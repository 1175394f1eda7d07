"""One key of a job, replayed under a debugger: its state is taken from a checkpoint, its rows from
where that has the sources, and the operator is called for them step by step."""
