"""The metrics of a job: what is measured, how readings are put together, and its health and events."""
