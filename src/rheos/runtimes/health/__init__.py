"""The health of a job, computed from its status and its metrics, now and earlier. Pure.

`kinds` has one file for each kind of finding, and the table of them. `moment` is the input of a kind.
`judge` combines what the kinds have found into a `JobHealth`, and remembers when each finding began.
"""
