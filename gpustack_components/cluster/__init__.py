"""The way to a Kubernetes API server: a port of about ten verbs over raw JSON, its adapter, and the keys.

`port`, `keys` and `readings` are names, types and pure readings that every layer may use; `client.connect` is the only
door that does I/O.
"""
