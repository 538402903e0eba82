"""What is said of a Service, or of the router's Deployment, that does not exist.

Pulumi declares both, and looks whether they still exist only when it refreshes.
"""

RELEASE = "Pulumi notices and makes it again"
"""What has to happen."""
COMMAND = "pulumi refresh && pulumi up"
"""The command that does it."""


def unreached(service: str) -> str:
    """Says that a Service of a deployment does not exist."""
    return f"Service {service} does not exist, so nobody is reached through it"


def unrouted(deployment: str) -> str:
    """Says that the router's Deployment does not exist, as is also so for a moment while a run first creates it."""
    return (
        f"Deployment {deployment} does not exist: a run that adds the router is about to create it; if it was deleted, "
        "`pulumi up --refresh` makes it again"
    )
