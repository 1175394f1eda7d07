"""The metrics of a job: their declarations, the merging of readings, and the job's health and
events."""
