"""Keyed functions that are compiled: from the syntax of a method to a loop in machine code.

`values` has the types that there are, and the refusal of what cannot be compiled; `constants` what a
method finds around it; `arithmetic` Python's arithmetic on 64 bits. `scope` says what names stand for;
`expressions` and `statements` write the body of a method as plain typed Python, line by line
(`writer`); `kernel` puts a loop around it and has numba compile it; `core` calls it for rows and
timers, and `start` says whether that can be.
"""
