"""The one error a person meets here: a sentence that names the part, the reason and where its log is."""


class SandboxError(Exception):
    """A build, start or stop that failed; its text is the whole message for a person."""
