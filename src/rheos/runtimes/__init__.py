"""Where a plan runs: on Spark continuously or as a batch job, or simulated in one thread.

This is the only wing that knows Spark jobs, sockets, threads and clocks. All runtimes take the same
plan and build the same operators.
"""
