"""Runners of the programs of docs/coming-from.md on other engines."""
