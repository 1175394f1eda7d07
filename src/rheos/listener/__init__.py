"""The HTTP listener of the webhook source, the event sink, the metrics port and the dashboard.

Nothing of a connection is trusted. One thread with an event loop holds all connections, so a silent one
costs a file handle and no thread. A connection that has not shown a valid token waits in a small room:
where that is full, the newest takes the place of the oldest, which is closed. So connections without a
token keep nobody out who has one, and use up no file handles. A connection is for one request.

place       where to listen, and which names a request may use for this machine
head        the head of a request, parsed strictly
admission   which connections stay: pure
bounds      sizes, numbers and deadlines
connection  one connection: head, body and answer, each with a deadline
server      the listener: accepts, admits, serves, closes
threads     threads for handlers
exchange    a request and its answer for handlers that run in threads
asgi        a request and its answer for an ASGI application
"""
