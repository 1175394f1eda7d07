"""The continuous runtime: one Spark stage whose tasks are the slots of a job.

`runtime` submits jobs, `launcher` runs the stage, `worker` is the body of a task. `control_server` and
`control_client` are the two ends of the control channel. `framed_transport` transports rows between
slots, over Unix sockets (`local_transport`) or ZeroMQ (`zmq_transport`). `security` and `admission`
decide who may connect.
"""
