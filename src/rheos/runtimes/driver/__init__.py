"""The driver's side of a job, for all runtimes.

`master` executes what the coordinator decides, with the help of a `launcher`. `sources_and_sinks` has
what the driver does at sources and sinks. `scaling` decides the parallelism of a job that scales
automatically, as a pure controller, and `autoscaler` requests it. `event_recorder` turns the
coordinator's events into the event log, `history` keeps the history of metrics, `profiles` requests
profiles of subtasks.
"""
