"""Connections, errors and requests for several records, which the connectors of AWS share."""
