"""Pulumi's side: the components a program declares, and the dynamic provider that turns replicas over.

Only this package, `policies` and `examples` import `pulumi`. `provider` runs in a process of its own, started by the
engine; its module path is part of every stack's state and never changes. Import the public names from
`gpustack_components`, which loads them on first use.
"""
