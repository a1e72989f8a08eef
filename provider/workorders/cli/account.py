"""The account that a command runs under."""

import os
import pwd


def account() -> str:
    """Return the name of the operating system's account; no option or environment variable can change it."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run under any number
        return f"user id {number}"


def signed(actor: str, account: str | None) -> str:
    """Return the actor, followed by the account if it has another name."""
    return actor if account in {None, actor} else f"{actor} (account {account})"
