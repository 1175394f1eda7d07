"""The simulated runtime: a whole job in one thread, under virtual time.

`world` schedules drivers and slots by a seed. `network`, `store`, `io` and `clock` are the simulated
ports. `faults` contains the faults, and the requests of users. `invariants` and `split_watch` check the
numbered invariants of the checkpoint protocol at every write.
"""
