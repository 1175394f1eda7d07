"""The command `rheos`: it parses arguments, calls the packages below, and prints the results.

`main` lists the commands. `control` and `jobs` have those for running jobs, `replaying` those that
run a program once more over a job's input (`fork`, `why`, `debug`). `failures` prints errors.
`project/` has the templates of `rheos init`, `shell/` the shell of `rheos sql`, `benchmarks/` the
programs of `rheos bench`.
"""
