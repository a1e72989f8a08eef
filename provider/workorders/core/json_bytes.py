"""Bytes that are probably text, in JSON."""

from base64 import b64encode


def text_or_base64(value: bytes) -> str | dict[str, str]:
    """Return bytes as a string if they are UTF-8 without NUL, which jsonb lacks, and otherwise `{"base64": "..."}`."""
    if 0 not in value:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": b64encode(value).decode()}
