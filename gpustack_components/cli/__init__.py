"""The command line, `gpustack-components`: a door to the corridor of `docs/architecture.md` for people and tools.

One module per command; `main` binds them, `guard` holds the exit codes, `sources` reads what a user names and `output`
writes what comes back. Nothing heavy is imported before a command runs, so that
`--help` and shell completion answer at once.
"""
