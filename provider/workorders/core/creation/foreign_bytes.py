"""Recognizes what the bytes of a value are that is not what its trigger expects, and names the setting to use.

Only a value that cannot be read is looked at, so a wrong guess costs no message; the detail never contains data.
"""

import re
from typing import Final

_FORMS: Final = (
    (
        rb"\0{5}",
        "in a frame of Apicurio Registry with an id of eight bytes: set apicurio.registry.id-handler in the sender to "
        "a handler of four bytes, and format and registry_connection in the trigger",
    ),
    (
        rb"\0.{4}",
        "in a frame of a schema registry (a zero byte and an id): set format (avro, protobuf, or json_schema) and "
        "registry_connection in the trigger",
    ),
    (
        rb"\x01.{16}",
        "in a frame of a schema registry with an id of 16 bytes: the sender must use an id of four bytes",
    ),
    (
        rb"\xc3\x01.{8}",
        "one Avro object without a schema registry: the sender must use a registry's serializer, or JSON",
    ),
    (rb"Obj\x01", "an Avro object container file: the sender must use a registry's serializer, or JSON"),
    (rb"\xac\xed\0\x05", "a serialized Java object: set a JSON serializer in the sender"),
    (rb"\x80[\x02-\x05]", "a Python pickle: set a JSON serializer in the sender"),
    (rb"\x1f\x8b", "compressed by gzip: set compression.type in the sender instead"),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd: set compression.type in the sender instead"),
    (rb"\x04\x22\x4d\x18", "compressed by lz4: set compression.type in the sender instead"),
    (rb"\x82SNAPPY|\xff\x06\0\0sNaPpY", "compressed by Snappy: set compression.type in the sender instead"),
    (rb"\xff\xfe.\0|\xfe\xff\0.|[{\[]\0|\0[{\[]", "in UTF-16: the sender must encode JSON in UTF-8"),
    (rb"(?:\xef\xbb\xbf)?\s*+<[?!a-zA-Z]", "XML or HTML: set a JSON serializer in the sender"),
    (rb"\{\s*'", "a Python dict as text: the sender must use json.dumps, not str"),
    (rb"[\w.%+\-\[\]]++=[^\s{}\"=][^\s{}\"]*\Z", "an HTML form: set the content type application/json in the sender"),
)
_ANY: Final = re.compile(b"|".join(b"(%b)" % pattern for pattern, _ in _FORMS), re.DOTALL)


def recognize(value: bytes) -> str | None:
    """Return what a value is, and what to set, as a clause after "it is"; None if that is not known."""
    found = _ANY.match(value)
    return None if found is None or found.lastindex is None else _FORMS[found.lastindex - 1][1]
