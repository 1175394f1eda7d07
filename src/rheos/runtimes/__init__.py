"""The runtimes that execute a plan: continuously on Spark, as a batch job, or simulated in one thread.

Only this package uses Spark jobs, sockets, threads and clocks. All runtimes take the same plan and
build the same operators.
"""
