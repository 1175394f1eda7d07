"""Programs of `rheos bench`, with taps, histogram, recorder, driver and report.

`soak` runs one job with all kinds of state for a long time, and checks it every minute.
"""
