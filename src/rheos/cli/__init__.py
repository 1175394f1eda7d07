"""The command `rheos`: it parses arguments, calls the packages below, and prints the results.

`main` contains the commands, except two groups. Commands for running jobs are in `control` and `jobs`.
Commands that rerun a program over a job's input (`fork`, `why`, `debug`) are in `replaying`. `terminal`
prints errors. `project/` has the templates of `rheos init`, `shell/` the shell of `rheos sql`,
`benchmarks/` the programs of `rheos bench`.
"""
