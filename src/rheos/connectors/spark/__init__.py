"""Spark's data: DataFrames as sources, and conversion between Spark's types and Arrow's.

`import rheos` does not import PySpark. Rheos imports it when a program passes a DataFrame.
"""
