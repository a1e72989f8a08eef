"""A function for tokens, as a connection names it: the token is in the settings."""

import time


def token(config: str) -> tuple[str, float]:
    """Return the token of `sasl.oauthbearer.config`."""
    return config, time.time() + 300


def no_token(config: str) -> tuple[str, float]:
    """Fail, as where a cloud's credentials are missing."""
    raise RuntimeError("no credentials in the cloud")
