"""REST and a web page for the jobs of this machine, and for those of checkpoint directories.

access        tokens, roles and the audit log
arguments     checks of requests' arguments, and of the paths in them
served_jobs   the served jobs, and the data about each
operations    the table of operations, from which the routes and OpenAPI are made
feeds         changes, requested once for all listeners
readiness     the answer to an orchestrator's probe
replays       runs of a job's program in a separate process, as a `guarded_process`
app           requests and answers
serving       the server
page/         the page in a browser
"""
