"""Joins of two streams, held to oracles that compare every row with every other."""
