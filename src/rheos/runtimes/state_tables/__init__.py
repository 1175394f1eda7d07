"""Stored state as tables: what a checkpoint or a savepoint contains, as columns of keys and values.

    catalogue      operators and their states
    keyed_layouts  one layout for each kind of keyed state: its columns, and the conversion of rows
    key_columns    the columns of a key
    values         declared values, by `forms` of their types

Only the shapes in the checkpoint are needed, neither the program nor its classes.
"""
