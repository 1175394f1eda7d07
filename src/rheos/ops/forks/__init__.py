"""Compares a job's program with a changed one: both run over the input that the job reads, next to the
job."""
