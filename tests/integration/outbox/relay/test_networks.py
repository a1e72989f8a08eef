"""Networks that are cut, silent or refused between a relay and what it carries from and to."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from faults.proxy import Proxy
from faults.site import Site
from local_stack.ports import LOOPBACK
from support.eventually import eventually
from support.outbox import Outbox, new_outbox
from support.outbox_load import Load
from support.topics import Topics

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A stack whose broker tells clients that came through the proxy to stay there."""
    with Site(f"outbox-networks-{uuid4().hex[:6]}") as site:
        yield site


@pytest.fixture
def outbox(site: Site) -> Outbox:
    return new_outbox(site.stack, max_messages=200)


@pytest.fixture
def load(site: Site, outbox: Outbox) -> Load:
    """Writers that go past the proxies, and relays that go through them."""
    topics = Topics(site.kafka_settings)
    relayed = replace(
        outbox,
        database_url=outbox.database_url.replace(f":{site.stack.postgres.port}/", f":{site.postgres.port}/"),
        kafka={"bootstrap.servers": f"{LOOPBACK}:{site.kafka.port}", "log_level": 0},
    )
    assert relayed.database_url != outbox.database_url
    return Load(outbox, [topics.create(f"cut-{uuid4().hex[:8]}", partitions=2) for _ in range(2)], relayed)


@pytest.mark.parametrize("server", ["kafka", "postgres"])
def test_the_network_between_relay_and_a_server_is_cut_refused_and_silent(
    site: Site, outbox: Outbox, load: Load, server: str
) -> None:
    proxy: Proxy = getattr(site, server)
    with load.running(relays=2):
        for _ in range(3):
            load.until_written(40)
            eventually(proxy.cut, seconds=30, what="A relay's connection through the proxy")
            outbox.leases_run_out()
        with proxy.unreachable():
            load.until_written(40)
        outbox.leases_run_out()
        load.until_written(40)
        with proxy.stalled():
            load.until_written(40)
        load.until_written(40)
    outbox.leases_run_out()
    outbox.relay()
    load.assert_right()
