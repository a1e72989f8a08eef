"""Names that tell that a value is a secret, by where the name is used: each search finds what tells it, or None."""

import re
from typing import Final

_ANYWHERE: Final = r"passw|passphrase|secret|token|jaas|(?:api|access|private)[._-]?key"

# Without "credential": Spark has settings such as spark.hadoop.fs.s3a.aws.credentials.provider, which name a class.
is_secret_setting: Final = re.compile(
    rf"{_ANYWHERE}|oauthbearer\.config|ssl\.key(?:store)?\.(?:pem|key)|ssl_key|user\.info", re.IGNORECASE
).search
"""In the name of a setting of a Kafka client or of Spark."""

is_secret_reference: Final = re.compile(
    r"^spark\.kubernetes\.(?:driver|executor)\.secret(?:s|KeyRef)\.|_FILE$|File$"
).search
"""In the name of a setting of Spark that tells where a secret is, and not what it is: a file, or Kubernetes' store."""

is_secret_variable: Final = re.compile(rf"{_ANYWHERE}|authorization|credential|fernet", re.IGNORECASE).search
"""In the name of an environment variable, or of a field of a connection."""

# "author" is no secret; "authorization" is.
is_secret_header: Final = re.compile(
    rf"{_ANYWHERE}|auth(?!or(?!i))|cookie|credential|session|signature", re.IGNORECASE
).search
"""In the name of a header of a request or a message; what is kept is shown to many people."""

assigns_secret: Final = re.compile(rf"(?:{_ANYWHERE})[\w.]*[\"']?\s*[=:]", re.IGNORECASE).search
"""In a text, such as an option for a JVM, that gives a secret its value."""

has_login: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@").search
"""In a text with a URL that has a password."""
