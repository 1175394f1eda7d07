"""The figures of a job: what is measured, how readings are put together, kept and exported."""
