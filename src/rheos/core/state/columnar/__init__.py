"""Declared values as arrays, for batch functions and compiled functions.

Each key of a subtask has a *slot*, and each declared value an array by slot. Stored state has the same
names, types and bytes as that of other keyed functions. So all forms of a function can restore each
other's savepoints.
"""
