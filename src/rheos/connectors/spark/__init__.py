"""Spark's own data: DataFrames as sources, and how its types map to Arrow's and back.

What is imported with `import rheos` does not import PySpark; it is imported where a DataFrame is at
hand.
"""
