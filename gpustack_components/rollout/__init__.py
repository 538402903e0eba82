"""Turning replicas over: what is wanted and observed, what to do next, and the executor that does it.

`desired`, `observe`, `decide` and `forecast` are pure. `record` and `lease` say what survives in the cluster and who
drives. `converge` and `teardown` are the doors: one durable step at a time, resumable after any end.
"""
