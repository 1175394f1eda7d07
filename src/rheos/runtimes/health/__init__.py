"""The health of a job, computed from its status, its metrics and what they were. Pure.

`kinds` has one file for each kind of finding, and the table of them; `moment` is what a kind looks at;
`judge` makes a `JobHealth` of what the kinds have found, and remembers since when each holds.
"""
