"""Keyed state on the worker's local disk, in RocksDB: larger than memory, snapshots by shared files.

database.py   the database: options, reads, scans, batches, its files, its errors
layout.py     what a database key is made of; which states there are
cache.py      what is in memory of a state, and when it is written and dropped
tables.py     values, lists and maps
handles.py    what the user's function gets
timers.py     timers by time, of which only the next are in memory
files.py      a snapshot's files, and a database out of those of old subtasks
rows.py       the canonical rows, which every backend reads
packed_entries.py  rows of columns as entries: those of running aggregates
backend.py    all of it behind the contract of keyed state
"""
