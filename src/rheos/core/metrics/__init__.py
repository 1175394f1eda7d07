"""The metrics of a job: their declarations, how readings are merged, and the job's health and
events."""
