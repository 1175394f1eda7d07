"""Joins of two streams, compared with oracles that compare every row with every other."""
