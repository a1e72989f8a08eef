"""Certificates and keys as PEM texts: the files that a Kafka connection names are read where a task runs.

So no other machine needs the files, and there is one form of keys that librdkafka and Java 17 read: PKCS#8 without a
password. Java 17 cannot read a key that current OpenSSL encrypts, nor the older forms of keys.
"""

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Final

from workorders.kafka.exceptions import ClientSettingsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_PROBE: Final = "probe"
"""In place of a file: librdkafka looks where systems have their authorities."""


def as_texts(settings: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka settings with the texts of files in place of their names.

    A PKCS#12 keystore becomes a certificate and a key. Keys become PKCS#8 without a password.

    Raises:
        ClientSettingsError: a file cannot be read, a key does not match its password, or half of a pair is missing.
    """
    given, protocol = dict(settings), settings.get("security.protocol", "").upper()
    if protocol.startswith("SASL"):
        _inline(given, "https.ca")  # of the endpoint that gives tokens
    if protocol.endswith("SSL"):
        _inline(given, "ssl.ca", "ssl.certificate", "ssl.key")
        _convert_key(given)
    return given


def _inline(given: dict[str, str], *names: str) -> None:
    """Replace the name of a file, which is `<name>.location`, by its text, which is `<name>.pem`."""
    for name in names:
        location = f"{name}.location"
        if given.get(location, _PROBE) != _PROBE:
            try:
                given.setdefault(f"{name}.pem", _read(given, location).decode())
            except UnicodeDecodeError:
                raise ClientSettingsError.because(
                    given, f"the file {given[location]} of {location} is not text in PEM form"
                ) from None
            del given[location]


def _convert_key(given: dict[str, str]) -> None:
    key_password = given.pop("ssl.key.password", None)
    keystore_password = given.pop("ssl.keystore.password", "")
    if "ssl.keystore.location" in given:
        given["ssl.certificate.pem"], given["ssl.key.pem"] = _from_keystore(given, keystore_password)
        del given["ssl.keystore.location"]
    elif "ssl.key.pem" in given:
        given["ssl.key.pem"] = _pkcs8(given, key_password)
    for one, other in permutations(("ssl.certificate", "ssl.key")):
        if f"{one}.pem" in given and f"{other}.pem" not in given:
            raise ClientSettingsError.because(
                given, f"{one} is given without {other}, and the certificate of a client needs both"
            )


def _read(given: Mapping[str, str], name: str) -> bytes:
    path = Path(given[name])
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ClientSettingsError.because(given, f"{name} names {path}, which is not on this machine") from None
    except OSError as error:
        raise ClientSettingsError.because(
            given, f"{name} names {path}, which cannot be read: {error.strerror}"
        ) from None


def _from_keystore(given: Mapping[str, str], password: str) -> tuple[str, str]:
    """Return the certificate with its issuers, and the key."""
    # Only connections with a certificate for the client load the library.
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415

    content, where = _read(given, "ssl.keystore.location"), given["ssl.keystore.location"]
    try:
        store = pkcs12.load_pkcs12(content, password.encode())
    except ValueError:
        raise ClientSettingsError.because(
            given, f"{where} of ssl.keystore.location is no PKCS#12 keystore, or ssl.keystore.password is not its own"
        ) from None
    if store.key is None or store.cert is None:
        raise ClientSettingsError.because(
            given, f"the keystore {where} of ssl.keystore.location has no key with its certificate"
        )
    chain = [store.cert, *store.additional_certs]
    return "".join(one.certificate.public_bytes(Encoding.PEM).decode() for one in chain), _as_pem(store.key)


def _pkcs8(given: Mapping[str, str], password: str | None) -> str:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    text = given["ssl.key.pem"].encode()
    # A password for a key that has none is no mistake to librdkafka.
    secret = password.encode() if password and b"ENCRYPTED" in text else None
    try:
        return _as_pem(load_pem_private_key(text, secret))
    except TypeError:
        raise ClientSettingsError.because(
            given, "the key of ssl.key is encrypted, and ssl.key.password is missing"
        ) from None
    except ValueError:
        reason = (
            "ssl.key.password does not open the key of ssl.key" if secret else "ssl.key is no private key in PEM form"
        )
        raise ClientSettingsError.because(given, reason) from None


def _as_pem(key: "PrivateKeyTypes") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
