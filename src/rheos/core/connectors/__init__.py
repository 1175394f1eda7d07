"""Contracts of sources, sinks and lookups, and what the core needs to call them."""
