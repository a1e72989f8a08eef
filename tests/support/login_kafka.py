"""A broker with every login: TLS of a private authority, mutual TLS, PLAIN, SCRAM, and OAUTHBEARER."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from local_stack import jars
from local_stack.broker import Kafka
from local_stack.java import find_java
from local_stack.ports import LOOPBACK, free_port
from local_stack.stack import LocalStack
from support.certificates import Authority
from support.oidc_issuer import AUDIENCE, ISSUER, OidcIssuer

USER: Final = "workorders"
"""Has every right."""
LIMITED: Final = "limited"
"""Has the rights that a test gives."""
PASSWORD: Final = 'a "quoted" pass\\word; of Kafka'
Settings = dict[str, str]

_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SECURITY: Final = "org.apache.kafka.common.security"
_LISTENERS: Final = {"TLS": "SSL", "MTLS": "SSL", "LOGIN": "SASL_SSL", "OAUTH": "SASL_SSL"}


class LoginKafka(Kafka):
    """A broker whose clients must trust a private authority, with a listener for each way to log in."""

    def __init__(self, stack: LocalStack, issuer: OidcIssuer) -> None:
        self.authority = Authority.create("Kafka's CA")
        self.client_authority = Authority.create("clients' CA")
        self.issuer = issuer
        self._ports = {name: free_port() for name in _LISTENERS}
        assert stack._processes is not None
        super().__init__(stack._processes, stack.home, java=find_java(), jars=jars.fetch("kafka"), name="kafka-logins")

    @property
    def tls(self) -> Settings:
        """What a client needs that is nobody."""
        return self._trusting("TLS", "SSL")

    @property
    def mutual_tls(self) -> Settings:
        """What a client needs besides its certificate."""
        return self._trusting("MTLS", "SSL")

    def login(self, mechanism: str, user: str = USER) -> Settings:
        """Return what a client needs that has a password."""
        who = {"sasl.username": user, "sasl.password": PASSWORD}
        return {**self._trusting("LOGIN", "SASL_SSL"), "sasl.mechanism": mechanism, **who}

    def oauth(self, client: str = USER) -> Settings:
        """Return what a client needs that gets tokens from the issuer."""
        return {
            **self._trusting("OAUTH", "SASL_SSL"),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": client,
            "sasl.oauthbearer.client.secret": PASSWORD,
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
            # A file of Java's properties.
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

    def _users(self) -> Sequence[str]:
        users = [f"{mechanism}=[name={user},password={PASSWORD}]" for mechanism in _SCRAM for user in (USER, LIMITED)]
        return [word for user in users for word in ("--add-scram", user)]

    def _java_options(self) -> Sequence[str]:
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.url}/jwks",)

    def _password_login(self) -> str:
        quoted = PASSWORD.replace("\\", r"\\").replace('"', r"\"")
        users = " ".join(f'user_{user}="{quoted}"' for user in (USER, LIMITED))
        return f"{_SECURITY}.plain.PlainLoginModule required {users};"


@contextmanager
def login_kafka(stack: LocalStack) -> Iterator[LoginKafka]:
    """Run such a broker next to the stack's own, with an issuer of tokens."""
    with OidcIssuer({USER: PASSWORD, LIMITED: PASSWORD}) as issuer:
        kafka = LoginKafka(stack, issuer)
        kafka.create()
        try:
            yield kafka
        finally:
            kafka.stop()
