"""The HTTP listener of the webhook source, the event sink, the metrics port and the dashboard.

No connection is trusted. One thread with an event loop holds all connections, so a silent one costs a
file handle and no thread. A connection that has not shown a valid token waits in a small queue: if that
is full, a new connection closes the oldest. So connections without a token cannot keep out those with
one, or use up the file handles. A connection serves one request.

place       where to listen, and which names a request may use for this machine
head        the head of a request, parsed strictly
admission   which connections are kept; pure
bounds      sizes, numbers and deadlines
connection  one connection: head, body and answer, each with a deadline
server      the listener: accepts, admits, serves, closes
threads     threads for handlers
exchange    a request and its answer for handlers that run in threads
asgi        a request and its answer for an ASGI application
"""
