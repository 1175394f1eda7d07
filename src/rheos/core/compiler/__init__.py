"""Compiles functions: from the syntax tree of a method to a loop in machine code.

`values` has the types that the compiler supports, and the error for code that it cannot compile.
`constants` and `name_resolver` find what a method uses from outside. `arithmetic` is that of Python
on 64 bits. `scope` resolves names. `statements` and `expression_writer` write the body of a method as
plain typed Python, line by line (`writer`). They leave operators, conditions, calls, collections of
constants, times, state and output to a writer for each. `match_statements` turns `match` into `if`, and
`called_functions` turns a called function into an expression. `comprehension_writer` turns a
comprehension into a loop. Python itself evaluates the `operations` on strings, which
`python_expressions` finds, `operation_writer` writes and `python_calls` executes.
`kernel` wraps the body in a loop, which numba compiles. `forms` has the kinds of functions that can be
compiled. `core.operators.compiled_loops` runs the loops: for functions with state and timers in
`compiled_core`, for others in `automatic_rows`.
"""
