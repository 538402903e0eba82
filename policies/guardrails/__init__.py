"""The guardrails pack: what an organisation adds to admission, each guardrail switched on by its configuration."""
