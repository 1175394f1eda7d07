"""Lines from a TCP server, for demonstrations: `socket.source("localhost:9999")`."""

from rheos.connectors.socket.source import SocketSource as SocketSource
from rheos.connectors.socket.source import source as source
