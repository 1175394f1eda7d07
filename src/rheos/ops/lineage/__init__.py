"""Finds the input rows that led to an output row: a program runs again from a checkpoint, and is
traced."""
