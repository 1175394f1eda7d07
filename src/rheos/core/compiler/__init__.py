"""Compiles keyed functions: from the syntax of a method to a loop in machine code.

`values` has the types that the compiler knows, and the refusal of what it cannot compile. `constants`
finds what a method refers to outside itself. `arithmetic` is Python's arithmetic on 64 bits. `scope`
resolves names. `expressions` and `statements` write the body of a method as plain typed Python, line by
line (`writer`). `kernel` puts a loop around the body and has numba compile it.
`core.operators.compiled_core` calls the kernel for rows and timers.
"""
