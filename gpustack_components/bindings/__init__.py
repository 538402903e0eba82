"""What other objects decide for a ModelDeployment: the binding objects, the settings, and `resolve`, which turns
both into plain values.

Read `resolve.py` first (what comes out), then `catalog.py` and `settings.py` (what goes in). Everything here is
pure (bindings sheet).
"""
