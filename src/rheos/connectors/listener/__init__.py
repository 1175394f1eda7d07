"""HTTP listener of the webhook source, the event sink, the metrics port and the dashboard.

No connection is trusted. One thread with an event loop serves all connections, so a silent one uses a
file handle but no thread. A connection without a valid token so far waits in a small queue: if it is
full, a new connection closes the oldest. So connections without a token cannot exclude those with one,
or use up the file handles. A connection serves one request.

    place       address to listen at, and names of this machine that requests may use
    head        the head of a request, parsed strictly
    admission   which connections are kept; pure
    bounds      sizes, numbers and deadlines
    connection  one connection: head, body and answer, each with a deadline
    server      the listener: accepts, admits, serves, closes
    threads     threads for handlers
    exchange    a request and its answer for handlers that run in threads
    asgi        a request and its answer for an ASGI application
"""
