"""Events of OpenLineage: the runs of a job, what it reads, and what it writes.

`events` makes the events, `emitter` sends them while the job runs.
"""
