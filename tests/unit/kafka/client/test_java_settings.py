import pytest

from local_stack.certificates import Authority
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.java_settings import java_settings
from workorders.kafka.client.settings import client_settings
from workorders.kafka.client.token_providers import GOOGLE, MSK_IAM

AUTHORITY = Authority.create("root")
CA, CLIENT = AUTHORITY.pem, AUTHORITY.client("client")
SASL = {"bootstrap.servers": "b:1", "security.protocol": "sasl_ssl", "sasl.username": "u", "sasl.password": "p"}
SSL = {"bootstrap.servers": "b:1", "security.protocol": "ssl"}
OAUTH = {
    "bootstrap.servers": "b:1",
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "id",
    "sasl.oauthbearer.client.secret": "secret",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
}


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as refused:
        java_settings(settings)
    return str(refused.value)


def test_java_reads_committed_messages_whatever_the_connection_sets() -> None:
    assert java_settings({"bootstrap.servers": "a:1,b:2", "isolation.level": "read_uncommitted", "group.id": "g"}) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "PLAINTEXT",
        "isolation.level": "read_committed",
    }


def test_twins_are_passed_on_under_their_other_names() -> None:
    found = java_settings(
        {
            "metadata.broker.list": "b:1",
            "client.id": "c",
            "socket.timeout.ms": 9000,
            "fetch.wait.max.ms": "50",
            "max.partition.fetch.bytes": "1000",
            "check.crcs": True,
        }
    )
    assert found == {
        "bootstrap.servers": "b:1",
        "client.id": "c",
        "request.timeout.ms": "9000",
        "fetch.max.wait.ms": "50",
        "max.partition.fetch.bytes": "1000",
        "check.crcs": "true",
        "security.protocol": "PLAINTEXT",
        "isolation.level": "read_committed",
    }


def test_settings_of_librdkafka_alone_are_left_out() -> None:
    only = {"debug": "all", "queued.min.messages": "1", "auto.offset.reset": "latest", "enable.auto.commit": "true"}
    assert java_settings({"bootstrap.servers": "b:1", **only, "error_cb": "a.b"}) == java_settings(
        {"bootstrap.servers": "b:1"}
    )


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
        ("scram-sha-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_password_becomes_a_login_module(mechanism: str, module: str, name: str) -> None:
    found = java_settings({**SASL, name: mechanism})
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.mechanism"] == mechanism.upper()
    assert found["sasl.jaas.config"] == f'{module} required username="u" password="p";'
    assert not {"sasl.username", "sasl.password", "sasl.mechanisms"} & set(found)


def test_a_password_cannot_break_out_of_its_quotes() -> None:
    found = java_settings({**SASL, "sasl.mechanisms": "PLAIN", "sasl.password": 'a"b\\c; d="\n\té'})
    assert found["sasl.jaas.config"].endswith(r'password="a\"b\\c; d=\"\012\011é";')


def test_oauth_becomes_a_login_module_with_its_endpoint() -> None:
    found = java_settings(OAUTH)
    package = "org.apache.kafka.common.security.oauthbearer"
    assert found["sasl.jaas.config"] == (
        f'{package}.OAuthBearerLoginModule required clientId="id" clientSecret="secret" scope="kafka" '
        f'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2";'
    )
    assert found["sasl.login.callback.handler.class"] == f"{package}.OAuthBearerLoginCallbackHandler"
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://login/token"


def test_certificates_travel_as_text() -> None:
    given = {"ssl.ca.pem": CA, "ssl.certificate.pem": CLIENT.chain, "ssl.key.pem": CLIENT.key("p")}
    assert java_settings({**SSL, **given, "ssl.key.password": "p"}) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "isolation.level": "read_committed",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CLIENT.chain,
        "ssl.keystore.key": CLIENT.key(),
    }


def test_the_endpoint_of_tokens_has_the_authority_of_its_own() -> None:
    found = java_settings({**OAUTH, "https.ca.pem": CA})
    assert found["sasl.jaas.config"].endswith(
        'ssl.truststore.type="PEM" ssl.truststore.certificates="' + CA.replace("\n", "\\012") + '";'
    )


def test_the_connection_may_give_settings_of_java_alone() -> None:
    own = {"sasl.jaas.config": "a.b.Login required;", "sasl.login.callback.handler.class": "a.b.Handler"}
    own |= {"client.id": "jvm", "check.crcs": "false", "isolation.level": "read_uncommitted"}
    by_callback = {**SSL, "security.protocol": "sasl_ssl", "sasl.mechanisms": "OAUTHBEARER", "client.id": "c"}
    assert java_settings({**by_callback, "java": own}) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.endpoint.identification.algorithm": "https",
        **own,
        "isolation.level": "read_committed",
    }
    crl = {**SSL, "ssl.crl.location": "/crl", "java": {"ssl.engine.factory.class": "a.b.Engines"}}
    assert java_settings(crl)["ssl.engine.factory.class"] == "a.b.Engines"
    assert "java" not in client_settings(crl)


@pytest.mark.parametrize("own", ["a=b", ["a"], {"a": {"b": "t0p"}}, {"a": ["t0p"]}])
def test_settings_of_java_in_a_wrong_form_are_refused_with_the_right_one(own: object) -> None:
    with pytest.raises(ConfigurationError, match=r"field java .* Nothing was read\. Give an object") as refused:
        java_settings({"bootstrap.servers": "b:1", "java": own})
    assert "t0p" not in str(refused.value)


def test_the_host_name_is_checked_unless_the_connection_sets_none() -> None:
    assert java_settings(SSL)["ssl.endpoint.identification.algorithm"] == "https"
    none = java_settings({**SSL, "ssl.endpoint.identification.algorithm": "none"})
    assert none["ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({**SSL, "enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification=false"),
        ({**SSL, "ssl.crl.location": "/crl"}, "ssl.crl.location in the Kafka connection has no form"),
        ({**SSL, "ssl.ca.certificate.stores": "Root"}, "ssl.ca.certificate.stores in the Kafka connection"),
        (SASL, "sasl.mechanisms=GSSAPI in the Kafka connection (GSSAPI if not given)"),
        ({**SASL, "sasl.mechanisms": "PLAIN", "sasl.password": ""}, "lacks sasl.password"),
        ({**SASL, "sasl.mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.method=default"),
    ],
)
def test_what_would_change_who_is_trusted_is_refused(settings: dict[str, str], part: str) -> None:
    sentence = refusal(settings)
    assert part in sentence
    assert "BEGIN" not in sentence


def test_settings_of_a_protocol_that_is_not_used_have_no_effect() -> None:
    assert java_settings({"bootstrap.servers": "b:1", "ssl.crl.location": "/crl", "sasl.username": "u"}) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "PLAINTEXT",
        "isolation.level": "read_committed",
    }


@pytest.mark.parametrize(
    ("function", "mechanism", "handler"),
    [
        (MSK_IAM, "AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAMClientCallbackHandler"),
        (GOOGLE, "OAUTHBEARER", "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"),
    ],
)
def test_a_function_for_the_tokens_of_a_cloud_becomes_the_login_of_its_library(
    function: str, mechanism: str, handler: str
) -> None:
    given = {**SASL, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": function, "sasl.oauthbearer.config": "region=r"}
    given = {name: value for name, value in given.items() if name not in {"sasl.username", "sasl.password"}}
    found = java_settings(given)
    assert found["sasl.mechanism"] == mechanism
    assert handler in found.values()
    assert found["sasl.jaas.config"].endswith("LoginModule required;")
    assert client_settings(given)["oauth_cb"] == function


def test_another_function_for_tokens_needs_a_login_for_java() -> None:
    given = {"bootstrap.servers": "b:1", "security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}
    assert "give sasl.jaas.config in the field java" in refusal({**given, "oauth_cb": "a.b.token"})
