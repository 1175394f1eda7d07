"""Declared values as arrays: what functions work on that take whole batches, or are compiled.

Each key of a subtask has a *slot*, and each declared value an array by slot. On disk, and between one
call of the operator and the next, it is the same state that other keyed functions have: of the same
names, types and bytes. So a savepoint of one form of a function is one of every other.
"""
