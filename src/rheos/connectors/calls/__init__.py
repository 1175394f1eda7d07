"""Calls that leave the process, each under a time limit of our own."""
