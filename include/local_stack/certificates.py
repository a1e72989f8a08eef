"""A private certificate authority, and the forms in which people keep certificates and keys."""

import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local_stack.ports import LOOPBACK

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key and the certificates of its issuers below the root."""

    certificate: x509.Certificate
    private_key: rsa.RSAPrivateKey
    issuers: tuple[x509.Certificate, ...] = ()

    @property
    def chain(self) -> str:
        """The certificate and its issuers as PEM."""
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in (self.certificate, *self.issuers))

    def key(self, password: str | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
        """Return the key as PEM, encrypted with the password if there is one."""
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        return self.private_key.private_bytes(Encoding.PEM, form, encryption).decode()

    def keystore(self, password: str, encryption: KeySerializationEncryption | None = None) -> bytes:
        """Return a PKCS#12 keystore."""
        by_password = encryption or BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            b"client", self.private_key, self.certificate, self.issuers or None, by_password
        )

    def server_context(self) -> ssl.SSLContext:
        """Return the settings of a TLS server of this process that has the certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "server.pem")
            file.write_text(self.chain + self.key(), encoding="ascii")
            context.load_cert_chain(file)
        return context


class Authority(Certificate):
    """A certificate authority."""

    @classmethod
    def create(cls, name: str) -> Self:
        """Create a root."""
        key = _new_key()
        return cls(_authority(name, key).sign(key, hashes.SHA256()), key)

    @property
    def pem(self) -> str:
        """Its own certificate as PEM, which clients trust."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def intermediate(self, name: str) -> "Authority":
        """Create an authority whose certificate this one signs."""
        key = _new_key()
        signed = _authority(name, key, self.certificate).sign(self.private_key, hashes.SHA256())
        return Authority(signed, key, (signed,))

    def server(self) -> Certificate:
        """Sign the certificate of a server on this machine."""
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address(LOOPBACK))]
        return self._sign("localhost", ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def client(self, name: str) -> Certificate:
        """Sign the certificate of a client."""
        return self._sign(name, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _sign(self, name: str, usage: x509.ObjectIdentifier, *extensions: x509.ExtensionType) -> Certificate:
        key = _new_key()
        builder = _builder(name, key, self.certificate.subject)
        for extension in (x509.ExtendedKeyUsage([usage]), *extensions):
            builder = builder.add_extension(extension, critical=False)
        return Certificate(builder.sign(self.private_key, hashes.SHA256()), key, self.issuers)


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def _authority(name: str, key: rsa.RSAPrivateKey, issuer: x509.Certificate | None = None) -> x509.CertificateBuilder:
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    signs = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **usage)
    return (
        _builder(name, key, issuer.subject if issuer else None)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(signs, critical=True)
    )


def _builder(name: str, key: rsa.RSAPrivateKey, issuer: x509.Name | None) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer or subject, subject, key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY
    )
