"""Comparison of the interpreted and the compiled form of a program's functions, over its own input."""
