"""Declared values as arrays, for batch functions and compiled functions.

Each key of a subtask has a *slot*, and each declared value an array by slot. On disk, and between calls
of the operator, the state equals that of other keyed functions: the same names, types and bytes. So all
forms of a function can restore each other's savepoints.
"""
