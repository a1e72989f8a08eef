"""A broker with every login: TLS of a private authority, mutual TLS, PLAIN, SCRAM, and OAUTHBEARER."""

import json
import secrets
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from local_stack.broker import Kafka
from local_stack.certificates import Authority
from local_stack.java import Java
from local_stack.oidc_issuer import AUDIENCE, ISSUER, OidcIssuer
from local_stack.ports import LOOPBACK, free_port
from local_stack.processes import Processes

USER: Final = "workorders"
"""A user with every right."""
LIMITED: Final = "limited"
"""A user with the rights that a test gives it."""
Settings = dict[str, str]

_SCRAM: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_ITERATIONS: Final = 4096
_ADMIN_SECONDS: Final = 60.0
_SECURITY: Final = "org.apache.kafka.common.security"
_LISTENERS: Final = {"TLS": "SSL", "MTLS": "SSL", "LOGIN": "SASL_SSL", "OAUTH": "SASL_SSL"}


class LoginKafka(Kafka):
    """A broker whose clients must trust a private authority, with a listener for each way to log in."""

    def __init__(
        self, processes: Processes, home: Path, *, java: Java, jars: Sequence[Path], name: str = "kafka"
    ) -> None:
        #: The password of every user and of every client of the issuer. It contains characters that JAAS must quote.
        self.password = f'{secrets.token_urlsafe(16)} "quoted" back\\slash;'
        self.authority = Authority.create("Kafka's CA")
        self.client_authority = Authority.create("clients' CA")
        self.issuer = OidcIssuer(dict.fromkeys((USER, LIMITED), self.password))
        self._ports = {name: free_port() for name in _LISTENERS}
        super().__init__(processes, home, java=java, jars=jars, name=name)

    @cached_property
    def variables(self) -> dict[str, str]:
        """An Airflow connection for each login, as variables of the environment. They hold passwords and keys."""
        client = self.client_authority.client(USER)
        logins = {
            "TLS": self.tls,
            "CERTIFICATE": {**self.mutual_tls, "ssl.certificate.pem": client.chain, "ssl.key.pem": client.key()},
            "PLAIN": self.login("PLAIN"),
            "SCRAM_256": self.login("SCRAM-SHA-256"),
            "SCRAM_512": self.login("SCRAM-SHA-512"),
            "OAUTH": self.oauth(),
        }
        return {
            f"AIRFLOW_CONN_KAFKA_{name}": json.dumps({"conn_type": "kafka", "extra": settings})
            for name, settings in logins.items()
        }

    def create(self) -> None:
        """Start the issuer, make the broker's storage, start it for the first time, and add its users.

        Raises:
            StackError: It did not start.
        """
        self.issuer.start()
        super().create()
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for user in (USER, LIMITED):
            for mechanism in _SCRAM.values():
                info = ScramCredentialInfo(mechanism, _ITERATIONS)
                added = UserScramCredentialUpsertion(user, info, self.password.encode())
                admin.alter_user_scram_credentials([added])[user].result(_ADMIN_SECONDS)
        # The controller has answered, and the broker takes what it has written a moment later, in the same order.
        last = self.login(list(_SCRAM)[-1], LIMITED)
        self.process.wait_until(lambda: self._brokers(last) > 0, seconds=_ADMIN_SECONDS, what="Kafka's last user")

    def close(self) -> None:
        """Stop the issuer, which is a thread of this process. The supervisor ends the broker's process."""
        self.issuer.stop()

    @property
    def tls(self) -> Settings:
        """The settings of a client that does not log in."""
        return self._trusting("TLS", "SSL")

    @property
    def mutual_tls(self) -> Settings:
        """The settings of a client with a certificate, except the certificate and its key."""
        return self._trusting("MTLS", "SSL")

    def login(self, mechanism: str, user: str = USER) -> Settings:
        """Return the settings of a client with a password."""
        who = {"sasl.username": user, "sasl.password": self.password}
        return {**self._trusting("LOGIN", "SASL_SSL"), "sasl.mechanism": mechanism, **who}

    def oauth(self, client: str = USER) -> Settings:
        """Return the settings of a client that gets tokens from the issuer."""
        return {
            **self._trusting("OAUTH", "SASL_SSL"),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": client,
            "sasl.oauthbearer.client.secret": self.password,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.token.endpoint.url": f"{self.issuer.url}/token",
            "https.ca.pem": self.issuer.authority.pem,
        }

    def _trusting(self, listener: str, protocol: str) -> Settings:
        address = f"{LOOPBACK}:{self._ports[listener]}"
        return {"bootstrap.servers": address, "security.protocol": protocol, "ssl.ca.pem": self.authority.pem}

    def _settings(self) -> dict[str, str]:
        settings = super()._settings()
        addresses = "".join(f",{name}://{LOOPBACK}:{port}" for name, port in self._ports.items())
        protocols = "".join(f",{name}:{protocol}" for name, protocol in _LISTENERS.items())
        added = {
            **self._certificates(),
            "listener.name.mtls.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "listener.name.login.sasl.enabled.mechanisms": ",".join(["PLAIN", *_SCRAM]),
            "listener.name.login.plain.sasl.jaas.config": self._password_login(),
            **{
                f"listener.name.login.{mechanism.lower()}.sasl.jaas.config": (
                    f"{_SECURITY}.scram.ScramLoginModule required;"
                )
                for mechanism in _SCRAM
            },
            **self._tokens(),
        }
        return {
            **settings,
            "listeners": settings["listeners"] + addresses,
            "advertised.listeners": settings["advertised.listeners"] + addresses,
            "listener.security.protocol.map": settings["listener.security.protocol.map"] + protocols,
            # Quoted for a file of Java's properties.
            **{name: value.replace("\\", r"\\").replace("\n", r"\n") for name, value in added.items()},
        }

    def _certificates(self) -> Settings:
        server = self.authority.server()
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": server.chain,
            "ssl.keystore.key": server.key(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.client_authority.pem,
        }

    def _tokens(self) -> Settings:
        trusted = self.issuer.authority.pem.replace("\n", r"\n")
        oauth = f"{_SECURITY}.oauthbearer"
        own = {
            "sasl.jaas.config": (
                f'{oauth}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker" '
                f'ssl.truststore.type="PEM" ssl.truststore.certificates="{trusted}";'
            ),
            "sasl.server.callback.handler.class": f"{oauth}.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": f"{self.issuer.url}/jwks",
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        return {
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            **{f"listener.name.oauth.oauthbearer.{name}": value for name, value in own.items()},
        }

    def _java_options(self) -> Sequence[str]:
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.url}/jwks",)

    def _password_login(self) -> str:
        quoted = self.password.replace("\\", r"\\").replace('"', r"\"")
        users = " ".join(f'user_{user}="{quoted}"' for user in (USER, LIMITED))
        return f"{_SECURITY}.plain.PlainLoginModule required {users};"
