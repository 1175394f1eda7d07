"""Exports of a job's metrics to other systems."""
