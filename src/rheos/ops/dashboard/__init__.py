"""REST and a page for the jobs of this machine, and for those of checkpoint directories.

access      who may do what
served      which jobs there are, and what is known of each
operations  everything that can be asked for: the routes, and OpenAPI, are made of it
feeds       what changes, to all who listen, asked for once
aside       operations that take minutes, beside the loop that answers
replays     what runs a job's program once more, in a process of its own
app         requests and answers
serving     the server around it
page/       what a browser shows
"""
