"""What the producer writes: everything follows from (producer, sequence number), so that the oracle can calculate."""

PERIOD = 25
"""Of this many sequence numbers, one is a message of each kind that is rejected; all others are inputs."""
_REJECTED = {3: "not-json", 8: "not-an-object", 13: "not-utf8", 18: "null-value", 23: "number-out-of-range"}
ACCEPTED = "accepted"


def kind(sequence: int) -> str:
    """Return the code that the message is rejected with, or `accepted`."""
    return _REJECTED.get(sequence % PERIOD, ACCEPTED)


def value(producer: int, sequence: int) -> bytes | None:
    """Return the value of a message."""
    match kind(sequence):
        case "not-json":
            return b"{broken %d %d" % (producer, sequence)
        case "not-an-object":
            return b"[%d, %d]" % (producer, sequence)
        case "not-utf8":
            return b'{"producer": %d, "seq": %d, "a": "\xff"}' % (producer, sequence)
        case "null-value":
            return None
        case "number-out-of-range":  # a KB, and a MB once Postgres writes it out
            return b'{"producer": %d, "seq": %d, "a": [%b]}' % (producer, sequence, b",".join([b"1e-9999"] * 100))
        case _:
            return b'{"producer": %d, "seq": %d, "text": "%0*d"}' % (producer, sequence, 200, sequence)


def aborted_value(producer: int, number: int) -> bytes:
    """Return the value of a message whose transaction is aborted: it must appear nowhere."""
    return b'{"producer": %d, "aborted": %d}' % (producer, number)
