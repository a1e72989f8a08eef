"""The errors of the local stack."""


class StackError(RuntimeError):
    """A part of the local stack did not start, stopped by itself or is missing; the message is one plain sentence."""
