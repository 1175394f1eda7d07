"""Exactly-once output to tables with a log of versions: what sinks of Delta and Iceberg share."""
