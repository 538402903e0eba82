"""How a replica leaves for good when it serves: it is taken out of selection, drained until it is idle, and only then
deleted (rollout sheet 7).

`operation` is what is remembered of it, `machine` the state machine over what a pass sees, `idle` what an engine's
metrics say, `reservation` its place in a pass, and `watcher` the reads that only a driver makes. All but the last are
pure.
"""
