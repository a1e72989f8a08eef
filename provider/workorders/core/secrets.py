"""Names that tell that a value is a secret, by where the name is used."""

import re
from typing import Final

_ANYWHERE: Final = r"passw|passphrase|secret|token|jaas|(?:api|access|private)[._-]?key"
# Without "credential": Spark has settings such as spark.hadoop.fs.s3a.aws.credentials.provider, which name a class.
_SETTING: Final = re.compile(
    rf"{_ANYWHERE}|oauthbearer\.config|ssl\.key(?:store)?\.(?:pem|key)|ssl_key|user\.info", re.IGNORECASE
)
_VARIABLE: Final = re.compile(rf"{_ANYWHERE}|authorization|credential|fernet", re.IGNORECASE)
# "author" is no secret; "authorization" is.
_HEADER: Final = re.compile(rf"{_ANYWHERE}|auth(?!or(?!i))|cookie|credential|session|signature", re.IGNORECASE)
# Where a secret is, and not what it is: a file, or an entry in Kubernetes' store.
_REFERENCE: Final = re.compile(r"^spark\.kubernetes\.(?:driver|executor)\.secret(?:s|KeyRef)\.|_FILE$|File$")
_LOGIN_IN_URL: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@")
_ASSIGNMENT: Final = re.compile(rf"(?:{_ANYWHERE})[\w.]*[\"']?\s*[=:]", re.IGNORECASE)


def is_secret_setting(name: str) -> bool:
    """Return whether a setting of a Kafka client or of Spark is a secret."""
    return _SETTING.search(name) is not None


def is_secret_reference(name: str) -> bool:
    """Return whether a setting of Spark tells where a secret is: in a file, or in Kubernetes' store."""
    return _REFERENCE.search(name) is not None


def is_secret_variable(name: str) -> bool:
    """Return whether an environment variable, or a field of a connection, is a secret."""
    return _VARIABLE.search(name) is not None


def is_secret_header(name: str) -> bool:
    """Return whether a header of a request or a message is a secret; what is kept is shown to many people."""
    return _HEADER.search(name) is not None


def assigns_secret(text: str) -> bool:
    """Return whether a text, such as an option for a JVM, gives a secret its value."""
    return _ASSIGNMENT.search(text) is not None


def has_login(text: str) -> bool:
    """Return whether a text has a URL with a password."""
    return _LOGIN_IN_URL.search(text) is not None
