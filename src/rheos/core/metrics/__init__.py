"""The metrics of a job: their declarations, the merging of readings, the job's health and events."""
