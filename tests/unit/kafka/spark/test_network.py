"""Which settings protect what Spark's processes send one another, by the master."""

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark import network
from workorders.kafka.spark.network import network_cipher, protection

ENCRYPTED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.io.encryption.enabled": "true",
}


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]"])
def test_an_application_of_one_process_listens_on_loopback_and_asks_for_a_secret(master: str) -> None:
    assert protection({"spark.master": master}) == {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.authenticate": "true",
    }


@pytest.mark.parametrize("master", ["yarn", "k8s://https://cluster:6443"])
def test_a_cluster_that_makes_the_secret_itself_is_authenticated_and_encrypted(master: str) -> None:
    assert protection({"spark.master": master}) == ENCRYPTED


@pytest.mark.parametrize("master", ["spark://master:7077", "local-cluster[1,1,1024]", ""])
def test_a_cluster_without_the_secret_that_it_needs_is_refused(master: str) -> None:
    with pytest.raises(ConfigurationError, match=r"needs a shared secret, .* no work order was created\. Set spark\.a"):
        protection({"spark.master": master})


def test_a_cluster_whose_secret_is_configured_is_authenticated_and_encrypted() -> None:
    given = {"spark.master": "spark://master:7077", "spark.authenticate.secret": "s"}
    assert protection(given) == ENCRYPTED


def test_what_is_set_already_is_left_as_it_is() -> None:
    given = {"spark.master": "spark://master:7077", "spark.authenticate": "false", "spark.io.encryption.enabled": "no"}
    assert set(protection(given)) == {"spark.network.crypto.enabled", "spark.network.crypto.cipher"}
    assert protection({"spark.master": "local[*]", "spark.driver.host": "10.0.0.7"}).get("spark.driver.host") is None


@pytest.mark.parametrize(
    ("spark", "cipher"),
    [
        ("4.0.1", "AES/CTR/NoPadding"),
        ("4.1.1", "AES/CTR/NoPadding"),
        ("4.2.0", "AES/GCM/NoPadding"),
        ("4.10.0", "AES/GCM/NoPadding"),
    ],
)
def test_changed_bytes_are_detected_where_sparks_cipher_loses_no_messages(
    spark: str, cipher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "version", lambda _: spark)
    assert network_cipher() == cipher
