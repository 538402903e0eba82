"""CrossGuard policy packs over the components of this package: `admission` and `guardrails`.

Each pack is an importable module with a `POLICIES` list, so that an organisation's own pack can take single policies
over; the `__main__.py` beside it only hands that list to Pulumi.
"""
