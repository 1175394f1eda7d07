"""Comparison of a job's program with a changed one: both run over the job's input, next to the job."""
