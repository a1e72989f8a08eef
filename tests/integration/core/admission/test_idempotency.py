"""Of the events with one key one becomes a run, whichever caller asks, whenever and however often."""

import random
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from support.admission import BY_ID, event, events, ids, outcome, register, wait_for_lock
from support.work_orders import remove
from workorders.core.admission import idempotency
from workorders.core.creation import work_orders
from workorders.core.creation.work_orders import Created, create_for
from workorders.core.history.work_orders import get_work_order
from workorders.core.items import Item
from workorders.core.postgres.arrays import uuids
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


@pytest.fixture(params=[1, 10_000], ids=["copied", "upserted"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take keys in both ways, of which a call has the one that is cheaper for their number."""
    monkeypatch.setattr(idempotency, "_WORTH_COPYING", request.param)


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    return register(connection, name, idempotency=BY_ID)


def keys_kept(connection: Connection, trigger: Trigger) -> int:
    row = connection.execute(
        "SELECT count(*) FROM workorders.idempotency_keys WHERE trigger_id = %s", (trigger.id,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def kept(connection: Connection, original: UUID) -> list[UUID]:
    """Return the repeats of a work order that are separate work orders, oldest first."""
    query = "SELECT work_order_id FROM workorders.rejections WHERE original_id = %s ORDER BY work_order_id"
    return [id_ for (id_,) in connection.execute(query, (original,))]


def age(connection: Connection, trigger: Trigger, interval: str) -> None:
    """Let time pass for the keys of a trigger."""
    connection.execute(
        "UPDATE workorders.idempotency_keys SET expires_at = expires_at - %s::interval WHERE trigger_id = %s",
        (interval, trigger.id),
    )


@pytest.mark.parametrize("fresh", [True, False])
def test_a_repeated_event_is_a_rejected_work_order_that_names_the_first(
    connection: Connection, trigger: Trigger, fresh: bool
) -> None:
    assert create_for(connection, trigger, events("aba"), fresh=fresh) == Created(2, 1, 0, 1)
    assert outcome(connection, trigger, "id") == [
        ("a", "pending", None),
        ("b", "pending", None),
        ("a", "rejected", "duplicate"),
    ]
    first, _, repeat = ids(connection, trigger)
    assert get_work_order(connection, repeat).duplicate_of == first
    assert kept(connection, first) == [repeat]
    detail = connection.execute("SELECT detail FROM workorders.rejections WHERE work_order_id = %s", (repeat,))
    assert detail.fetchone() == (f"duplicate of {first}",)


def test_a_repeat_of_an_earlier_call_is_a_duplicate_too(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, events("ab"), fresh=True)
    connection.commit()
    assert create_for(connection, trigger, events("bca", 2), fresh=True) == Created(1, 2, 0, 2)
    first_a, first_b, repeat_b, _, repeat_a = ids(connection, trigger)
    assert get_work_order(connection, repeat_a).duplicate_of == first_a
    assert get_work_order(connection, repeat_b).duplicate_of == first_b


def test_repeats_of_an_event_that_is_a_repeat_itself_name_the_one_that_has_a_run(
    connection: Connection, trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_orders, "CHUNK_ITEMS", 3)
    create_for(connection, trigger, events("a"), fresh=True)
    connection.commit()
    assert create_for(connection, trigger, events("aabbbb", 1), fresh=True) == Created(1, 5, 0, 5)
    first_a, *repeats_a, first_b, other_b, another_b, last_b = ids(connection, trigger)
    assert kept(connection, first_a) == repeats_a
    assert kept(connection, first_b) == [other_b, another_b, last_b]
    details = connection.execute(
        "SELECT detail FROM workorders.rejections WHERE work_order_id = ANY (%s)", ([*repeats_a, last_b],)
    )
    assert Counter(detail for (detail,) in details) == {f"duplicate of {first_a}": 2, f"duplicate of {first_b}": 1}


def test_an_event_without_a_key_repeats_nothing(connection: Connection, trigger: Trigger) -> None:
    items = [event(0), event(1), event(2, id=None), event(3, id=None)]
    assert create_for(connection, trigger, items, fresh=True) == Created(4, 0, 0)


def test_events_without_a_source_key_are_known_by_their_own(connection: Connection, trigger: Trigger) -> None:
    assert create_for(connection, trigger, [event(None, id="a")]) == Created(1, 0, 0)
    assert create_for(connection, trigger, [event(None, id="a")]) == Created(0, 1, 0, 1)


def test_an_event_that_is_no_input_takes_no_key(connection: Connection, trigger: Trigger) -> None:
    # The mapping lets no NUL through; here Postgres is the one who finds it.
    items = [Item("s", 0, b"{}", rb'{"id":"a","text":"\u0000"}'), event(1, id="a"), event(2, id="a")]
    assert create_for(connection, trigger, items, fresh=True) == Created(1, 2, 0, 1)
    assert [code for *_, code in outcome_codes(connection, trigger)] == ["refused-by-postgres", None, "duplicate"]


def outcome_codes(connection: Connection, trigger: Trigger) -> list[tuple[str, str | None]]:
    return connection.execute(
        """
        SELECT state::text, code FROM workorders.work_orders
        LEFT JOIN workorders.rejections ON work_order_id = work_orders.id
        WHERE trigger_id = %s ORDER BY work_orders.id
        """,
        (trigger.id,),
    ).fetchall()


def test_two_triggers_have_their_keys_apart(connection: Connection, trigger: Trigger, name: str) -> None:
    another = register(connection, f"{name}-2", idempotency=BY_ID)
    create_for(connection, trigger, events("a"), fresh=True)
    assert create_for(connection, another, events("a"), fresh=True) == Created(1, 0, 0)


def test_a_replay_changes_nothing_and_no_original_repeats_itself(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, events("aba"), fresh=True)
    connection.commit()
    before = outcome(connection, trigger, "id")
    assert create_for(connection, trigger, events("aba")) == Created(0, 0, 3)
    assert outcome(connection, trigger, "id") == before


def test_a_replay_that_restores_the_original_does_not_make_it_a_duplicate_of_itself(
    connection: Connection, trigger: Trigger
) -> None:
    create_for(connection, trigger, events("aba"), fresh=True)
    remove(connection, trigger, [0])
    connection.commit()
    assert create_for(connection, trigger, events("aba")) == Created(1, 0, 2)
    restored = ids(connection, trigger)[-1]
    assert create_for(connection, trigger, events("a", 3)) == Created(0, 1, 0, 1)
    assert get_work_order(connection, ids(connection, trigger)[-1]).duplicate_of == restored


def test_protection_outlives_the_original(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, events("a"), fresh=True)
    remove(connection, trigger, [0])
    assert create_for(connection, trigger, events("a", 1), fresh=True) == Created(0, 1, 0, 1)


def test_a_window_counts_from_the_end_of_a_transaction_and_not_from_its_start(
    connection: Connection, trigger: Trigger
) -> None:
    """The keys of one that is longer than the window would be over before they are committed."""
    times = connection.execute("SELECT now(), clock_timestamp()").fetchone()
    create_for(connection, trigger, events("abc"))
    taken = connection.execute(
        "SELECT min(expires_at) - interval '1 h' FROM workorders.idempotency_keys WHERE trigger_id = %s", (trigger.id,)
    ).fetchone()
    assert times is not None
    assert taken is not None
    assert times[0] < times[1] <= taken[0]


def test_the_whole_window_looks_back(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, events("a"), fresh=True)
    age(connection, trigger, "59 minutes 50 seconds")
    assert create_for(connection, trigger, events("a", 1), fresh=True) == Created(0, 1, 0, 1)


def test_behind_the_window_the_key_is_free_again(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, events("a"), fresh=True)
    age(connection, trigger, "1 hour 1 minute")
    assert create_for(connection, trigger, events("aa", 1), fresh=True) == Created(1, 1, 0, 1)
    _, second, repeat = ids(connection, trigger)
    assert get_work_order(connection, repeat).duplicate_of == second


def test_a_repeat_does_not_make_the_window_longer(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, events("a"), fresh=True)
    age(connection, trigger, "40 minutes")
    assert create_for(connection, trigger, events("a", 1), fresh=True).rejected_by_rule == 1
    age(connection, trigger, "21 minutes")
    assert create_for(connection, trigger, events("a", 2), fresh=True) == Created(1, 0, 0)


def test_keys_that_are_over_go_in_steps_with_the_next_calls(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, events("abcdefgh"), fresh=True)
    age(connection, trigger, "2 hours")
    create_for(connection, trigger, events("xy", 8), fresh=True)
    assert keys_kept(connection, trigger) == 8 - 5 + 2
    assert idempotency.expire(connection, 2) == 2
    assert keys_kept(connection, trigger) == 3


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("expire", "idempotency_keys_expires_at_idx"),
        ("known", "idempotency_keys_pkey"),
    ],
)
def test_keys_are_found_by_an_index_and_never_by_reading_them_all(
    connection: Connection, trigger: Trigger, query: str, index: str
) -> None:
    create_for(connection, trigger, events(map(str, range(2000))), fresh=True)
    connection.execute("ANALYZE workorders.idempotency_keys")
    if query == "expire":  # of so few it would read all
        connection.execute("SET LOCAL enable_seqscan = off")
    asked = [bytes([number % 256, number // 256]) * 8 for number in range(2000)]
    arguments = {"limit": 10, "trigger_id": trigger.id, "keys": uuids(asked), "ids": uuids(asked)}
    plan = "\n".join(row[0] for row in connection.execute("EXPLAIN " + idempotency._QUERIES[query], arguments))
    assert index in plan
    assert "Seq Scan" not in plan


def in_parallel(
    pool: ThreadPoolExecutor, connection: Connection, trigger: Trigger, items: list[Item]
) -> Future[Created]:
    def run() -> Created:
        with connection.transaction():
            return create_for(connection, trigger, items, fresh=True)

    return pool.submit(run)


@pytest.mark.parametrize("commits", [True, False])
def test_of_two_transactions_at_once_the_second_waits_for_the_first(
    stack: LocalStack, connection: Connection, other: Connection, trigger: Trigger, commits: bool
) -> None:
    create_for(connection, trigger, events("ab"), fresh=True)
    with ThreadPoolExecutor(1) as pool:
        second = in_parallel(pool, other, trigger, events("bc", stream="t"))
        wait_for_lock(stack.database_url, other)
        if commits:
            connection.commit()
        else:
            connection.rollback()
        assert second.result(30) == (Created(1, 1, 0, 1) if commits else Created(2, 0, 0))


def test_many_transactions_that_share_keys_never_wait_in_a_circle(
    stack: LocalStack, trigger: Trigger, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes the same keys in its own order, in several chunks and statements."""
    monkeypatch.setattr(work_orders, "CHUNK_ITEMS", 50)
    monkeypatch.setattr(idempotency, "_KEYS_A_STEP", 20)
    names = [str(number) for number in range(200)]

    def run(number: int) -> Created:
        shuffled = random.Random(number).sample(names, len(names))
        with connect(stack.database_url, application_name=f"test {number}") as own, own.transaction():
            return create_for(own, trigger, events(shuffled, stream=f"s{number}"), fresh=True)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(run, range(12)))
    assert sum(result.created for result in results) == len(names)
    assert sum(result.rejected_by_rule for result in results) == 11 * len(names)
    states = Counter((id_, state) for id_, state, _ in outcome(connection, trigger, "id"))
    assert all(states[name, "pending"] == 1 for name in names)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_batches_one_event_of_each_key_is_let_in(
    connection: Connection, trigger: Trigger, seed: int
) -> None:
    chance = random.Random(seed)
    arriving = events(chance.choices("abcdefghijklmnop", k=120))
    place = 0
    while place < len(arriving):
        size = chance.randint(1, 30)
        with connection.transaction():
            create_for(connection, trigger, arriving[place : place + size], fresh=chance.random() < 0.5)
            if chance.random() < 0.3:  # the ledger was set back: some come again
                create_for(connection, trigger, arriving[max(0, place - 10) : place + size])
        place += size
    found = outcome(connection, trigger, "id")
    seen: set[str] = set()
    for id_, state, code in found:
        assert (state, code) == (("rejected", "duplicate") if id_ in seen else ("pending", None))
        seen.add(id_)
    assert len(found) == len(arriving)
