"""The services of the machine for a process: the real clock, I/O threads, event loops, stores.

`direct_writes` writes large files of stores past the page cache.
`scratch` has local folders that other users cannot enter, `pickling` serializes programs.
`memory_room`, `memory_tuning` and `process_metrics` watch and tune the memory of a worker.
`stack_sampler` profiles a thread, `log_capture` collects log records, `worker_objects` caches objects
per process.
"""
