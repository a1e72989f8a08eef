"""Kafka connections with which no client can start, and what must be reported of each."""

from typing import Final

SERVERS: Final = "broker.example:9092"
WRONG: Final = {
    "a file that is not there": (
        {"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"},
        "ssl.ca.location names /nowhere/ca.pem, which is not on this machine. Correct the connection.",
    ),
    "an unknown setting": (
        {"socket.timout.ms": "1000"},
        'No such configuration property: "socket.timout.ms". Correct the connection.',
    ),
    "a login that is not built in": (
        {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "GSSAPI"},
        "No provider for SASL mechanism GSSAPI. Use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, or OAUTHBEARER",
    ),
}
"""Extra settings of the connection, and the end of the reason, by what is wrong."""
BEGINNING: Final = (
    f"Kafka at {SERVERS} was not asked, because its client cannot start with the settings of the Airflow Kafka "
    f"connection: "
)


def wrong_settings(what: str) -> dict[str, str]:
    """Return librdkafka settings with this mistake, and with a password that must not be shown."""
    return {"bootstrap.servers": SERVERS, "sasl.password": "t0p-secret", **WRONG[what][0]}


def assert_reported(text: str, what: str) -> None:
    """Raise AssertionError unless the text gives the reason in full, and no password."""
    assert BEGINNING + WRONG[what][1] in text, text
    assert "t0p-secret" not in text
