"""The Spark session: its start, its JVM, its workers, and the shipping of code.

`session` finds or creates the session. `jvm_options` and `class_archive` make its JVM start faster, and
`early_start` starts it while the program is still being imported. `daemon` forks workers from a process
that has already imported what they need. `shipping` sends code, `jvm` explains errors when the JVM
ends, and `worker_exits` reports the signal that killed a worker.
"""
