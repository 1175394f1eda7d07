"""The simulated runtime: a whole job in one thread, under virtual time.

`world` schedules drivers and slots by a seed; `network`, `store`, `io` and `clock` are the simulated
ports, `faults` what goes wrong, `requests` what users ask for. `invariants` and `split_watch` check
the numbered invariants of the checkpoint protocol at every write.
"""
