"""What a process gets from its machine: the real clock, I/O threads, event loops, stores.

`scratch` has local folders that are closed to other users, `pickling` the form in which programs are
sent. `freed_memory`, `garbage`, `memory_room` and `process_metrics` watch and tune the memory of a
worker. `stack_sampler` profiles a thread, `log_capture` collects what is logged, `load_once` caches
objects per process.
"""
