"""Native kernels for small batches, which a worker may have compiled (`kernels.c`).

A kernel replaces many calls of Python, NumPy and Arrow by one. It does exactly the same as its Python
form, over the same arrays, and keeps nothing between two calls. So a process may begin to use the
kernels between any two batches. Whatever a kernel does not know is left to the Python form.
"""
