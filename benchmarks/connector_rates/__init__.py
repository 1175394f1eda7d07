"""Connectors compared with their client libraries alone."""
