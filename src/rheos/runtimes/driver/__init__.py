"""The driver's part of a job, for all runtimes.

`master` executes what the coordinator decides, with the help of a `launcher`. `sources_and_sinks` does
the driver's work at sources and sinks. `scaling` is a pure controller that decides the parallelism of a
job that scales automatically; `autoscaler` requests the change. `event_recorder` turns the
coordinator's events into the event log, `history` keeps the history of metrics, `profiles` requests
profiles of subtasks.
"""
