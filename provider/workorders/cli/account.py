"""Whose account a command runs under."""

import os
import pwd


def account() -> str:
    """Return the name of the operating system's account, which no option and no environment variable can change."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # as in a container that runs under any number
        return f"user id {number}"


def signed(who: str, account: str | None) -> str:
    """Return who did something, with the account if that is another name."""
    return who if account in {None, who} else f"{who} (account {account})"
