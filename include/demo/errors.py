"""What ends the demo early."""


class DemoError(RuntimeError):
    """One sentence for the person who ran it: what did not happen, and where to look."""
