"""Keyed state on the worker's local disk, in RocksDB: larger than memory, with snapshots as shared
files.

    database.py        the database: options, reads, scans, batches, files, errors
    layout.py          the parts of a database key, and the catalogue of states
    cache.py           the part of a state in memory, and when it is written and evicted
    value_tables.py    values, lists and maps
    timers.py          timers by time; only the next ones are in memory
    files.py           a snapshot as files, and a database restored from those of earlier subtasks
    rows.py            the canonical rows, which every backend reads
    packed_entries.py  rows of columns as entries, for running aggregates
    backend.py         the implementation of the contract of keyed state
"""
