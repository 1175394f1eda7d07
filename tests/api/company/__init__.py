"""Tables of all Polars functions that return expressions. An accepted expression gives the same result
for a row, whichever other rows are in the batch."""
