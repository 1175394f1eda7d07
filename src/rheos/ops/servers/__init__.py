"""Servers for development and tests, for `rheos servers` and `rheos.testing.servers`.

A further server is a class that derives from `Server`, and the `server` of a connector's registration.
"""

from rheos.ops.servers.server import Server as Server
from rheos.ops.servers.server import development_server as development_server
