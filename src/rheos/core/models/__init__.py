"""Models that serve: predictors of whole batches, and their inputs and outputs as columns."""
