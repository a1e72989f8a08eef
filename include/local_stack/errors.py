"""What the local stack says when it cannot do what it was asked."""


class StackError(RuntimeError):
    """A part of the local stack did not start, stopped by itself or is missing; the message is one plain sentence."""
