"""Resolved values to Kubernetes manifests, as dicts and without I/O (rendering sheet).

Read `replica.py` first: a template per role (`template.py`), computed once, and a stamp per seat. What goes into
the template has a module each: `argv.py`, `documents.py`, `environment.py`, `volumes.py`, `lifecycle.py`,
`sidecar.py`. Objects beside Pods: `services.py`, `queues.py`.
"""
