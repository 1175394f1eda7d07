"""MongoDB: `mongodb.sink(...)`, `mongodb.lookup(...)` and `mongodb.changes(...)`, with the extra
`rheos[mongodb]`."""

from rheos.connectors.mongodb.change_source import MongodbChanges as MongodbChanges
from rheos.connectors.mongodb.change_source import changes as changes
from rheos.connectors.mongodb.lookup import MongodbLookup as MongodbLookup
from rheos.connectors.mongodb.lookup import lookup as lookup
from rheos.connectors.mongodb.sink import MongodbSink as MongodbSink
from rheos.connectors.mongodb.sink import sink as sink
