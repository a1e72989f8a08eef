"""Transactions in a database of a user: what is written once, whatever fails."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from psycopg.types.json import Jsonb
from sqlalchemy.dialects.postgresql import JSONB, insert

from local_stack.pgbouncer import PgBouncer
from local_stack.stack import LocalStack
from support.documents import DOCS, blocks
from support.eventually import eventually
from support.proxies import LosingProxy
from support.step_functions import CONNECTION, add_one, user_database
from workorders.core.worker import user_database as module
from workorders.core.worker.exceptions import StepError, StepOutcomeUnknownError, StepsTableMissingError
from workorders.core.worker.steps import StepKey
from workorders.core.worker.user_database import UserDatabase

pytestmark = pytest.mark.integration

LIMITS = {"connection": CONNECTION, "statement_timeout": 5.0, "lock_timeout": 5.0, "idle_timeout": 20.0}
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid' AND datname = current_database()"
Make = Callable[..., UserDatabase]


@pytest.fixture(scope="module")
def url(stack: LocalStack) -> str:
    """A database of a user."""
    return user_database(stack, f"shop-{uuid4().hex[:8]}")


@pytest.fixture
def make(url: str) -> Iterator[Make]:
    """Makes what a process of runs has, and closes its connections."""
    made: list[UserDatabase] = []

    def make(text: str = url, **limits: float) -> UserDatabase:
        made.append(UserDatabase(text, {**LIMITS, **limits}))
        return made[-1]

    yield make
    for database in made:
        database.close()


@pytest.fixture
def database(make: Make) -> UserDatabase:
    """One of them."""
    return make()


@pytest.fixture
def key() -> StepKey:
    """A step of this test."""
    return StepKey(str(uuid4()), 1, "count")


def count(name: str) -> Callable[[psycopg.Connection[Any]], bytes]:
    """Return a function that adds one to the counter, and returns its number."""
    return lambda connection: b"%d" % add_one(connection, name)


def never(connection: psycopg.Connection[Any]) -> bytes:
    """Fail: no one may call this."""
    raise AssertionError("it was called")


def number_of(url: str, name: str) -> int | None:
    """Return the number of a counter."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT number FROM counters WHERE name = %s", [name]).fetchone()
    return int(row[0]) if row else None


def test_what_is_written_commits_with_the_result_and_a_later_attempt_gets_that(
    make: Make, url: str, key: StepKey, name: str
) -> None:
    runs = [str(uuid4()), str(uuid4())]
    committed = [make().transact(run_id, key, count(name)) for run_id in runs]
    assert committed[0] == committed[1]
    assert (committed[0].result, str(committed[0].made_by)) == (b"1", runs[0])
    assert number_of(url, name) == 1


def test_each_generation_name_and_work_order_is_a_step_of_its_own(
    database: UserDatabase, url: str, key: StepKey, name: str
) -> None:
    for other in (
        key,
        key._replace(generation=2),
        key._replace(name="other"),
        key._replace(work_order_id=str(uuid4())),
    ):
        database.transact(str(uuid4()), other, count(name))
    assert number_of(url, name) == 4


def test_a_function_that_raises_writes_and_stores_nothing(
    database: UserDatabase, url: str, key: StepKey, name: str
) -> None:
    def fail(connection: psycopg.Connection[Any]) -> bytes:
        add_one(connection, name)
        raise ValueError("no good")

    with pytest.raises(ValueError, match="no good"):
        database.transact(str(uuid4()), key, fail)
    assert number_of(url, name) is None
    assert database.transact(str(uuid4()), key, count(name)).result == b"1"


def test_a_second_one_waits_for_the_first_and_gets_its_result(make: Make, url: str, key: StepKey, name: str) -> None:
    began, may_end = threading.Event(), threading.Event()

    def slowly(connection: psycopg.Connection[Any]) -> bytes:
        began.set()
        assert may_end.wait(20)
        return count(name)(connection)

    with ThreadPoolExecutor() as threads:
        zombie = threads.submit(make().transact, str(uuid4()), key, slowly)
        assert began.wait(20)
        second = threads.submit(make(lock_timeout=0.001).transact, str(uuid4()), key, never)
        with psycopg.connect(url, autocommit=True) as connection:
            eventually(lambda: connection.execute(WAITING).fetchone() == (1,), seconds=20, what="the wait")
        may_end.set()
        assert zombie.result(20) == second.result(20)
    assert number_of(url, name) == 1


def test_a_second_one_calls_the_function_if_the_first_was_rolled_back(
    make: Make, url: str, key: StepKey, name: str
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def fail_slowly(connection: psycopg.Connection[Any]) -> bytes:
        add_one(connection, name)
        began.set()
        assert may_end.wait(20)
        raise ValueError("no good")

    with ThreadPoolExecutor() as threads:
        first = threads.submit(make().transact, str(uuid4()), key, fail_slowly)
        assert began.wait(20)
        second = threads.submit(make().transact, str(uuid4()), key, count(name))
        may_end.set()
        assert isinstance(first.exception(20), ValueError)
        assert second.result(20).result == b"1"
    assert number_of(url, name) == 1


@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_lost_commit_or_answer_to_it_writes_once(
    make: Make, url: str, key: StepKey, what: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = key.work_order_id
    monkeypatch.setattr(module, "delay_seconds", lambda _: 0.1)
    called: list[int] = []

    def note(connection: psycopg.Connection[Any]) -> bytes:
        called.append(add_one(connection, name))
        return b'"noted"'

    with LosingProxy(url) as proxy:
        proxy.lose(what)
        assert make(proxy.url).transact(str(uuid4()), key, note).result == b'"noted"'
        assert proxy.lost.is_set()
    assert called == ([1, 1] if what == "request" else [1])
    assert number_of(url, name) == 1


def test_after_a_lost_answer_and_an_outage_the_error_says_that_the_outcome_is_unknown(
    make: Make, url: str, key: StepKey, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "delay_seconds", lambda _: 0)
    with LosingProxy(url) as proxy:
        monkeypatch.setattr(proxy, "on_answer", _refuse_after_commit(proxy))
        with pytest.raises(StepOutcomeUnknownError, match="A retry or rerun finds out"):
            make(proxy.url).transact(str(uuid4()), key, count(name))
    assert make().transact(str(uuid4()), key, never).result == b"1"


def _refuse_after_commit(proxy: LosingProxy) -> Any:
    def on_answer(link: Any, sink: Any, data: bytes) -> None:
        if b"COMMIT\0" in data:
            proxy.refuse()
            link.close()
        else:
            sink.sendall(data)

    return on_answer


def test_an_error_of_the_connection_in_the_function_is_that_of_the_run(
    database: UserDatabase, url: str, key: StepKey, name: str
) -> None:
    def lose(connection: psycopg.Connection[Any]) -> bytes:
        add_one(connection, name)
        end(url, connection.info.backend_pid)
        return count(name)(connection)

    with pytest.raises(psycopg.OperationalError):
        database.transact(str(uuid4()), key, lose)
    assert number_of(url, name) is None
    assert database.transact(str(uuid4()), key, count(name)).result == b"1"


def end(url: str, backend: int) -> None:
    """End a session, and wait until it has ended."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])


def test_a_kept_connection_that_the_server_has_ended_is_replaced(
    database: UserDatabase, url: str, key: StepKey, name: str
) -> None:
    database.transact(str(uuid4()), key, count(name))
    first = database.connected().info.backend_pid
    end(url, first)
    database.transact(str(uuid4()), key._replace(name="second"), count(name))
    assert database.connected().info.backend_pid != first
    assert number_of(url, name) == 2


def test_a_server_that_cannot_be_reached_is_the_error_of_the_run(make: Make, url: str, key: StepKey) -> None:
    unreachable = psycopg.conninfo.make_conninfo(url, port=1)
    with pytest.raises(psycopg.OperationalError):
        make(unreachable).transact(str(uuid4()), key, never)


@pytest.mark.parametrize("error", [psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected])
def test_a_transaction_that_postgres_rolls_back_for_another_one_is_repeated(
    database: UserDatabase, url: str, key: StepKey, name: str, error: type[psycopg.Error]
) -> None:
    called: list[int] = []

    def conflict(connection: psycopg.Connection[Any]) -> bytes:
        called.append(add_one(connection, name))
        if len(called) < 3:
            connection.execute(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{error.sqlstate}'; END $$")
        return b"%d" % called[-1]

    assert database.transact(str(uuid4()), key, conflict).result == b"1"
    assert called == [1, 1, 1]
    assert number_of(url, name) == 1


def test_repetitions_are_bounded(database: UserDatabase, key: StepKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_CONFLICT_SECONDS", 0)
    called = []

    def conflict(connection: psycopg.Connection[Any]) -> bytes:
        called.append(1)
        raise psycopg.errors.SerializationFailure("always")

    with pytest.raises(psycopg.errors.SerializationFailure):
        database.transact(str(uuid4()), key, conflict)
    assert len(called) == 11


def test_a_serializable_database_keeps_the_promise(make: Make, url: str, key: StepKey, name: str) -> None:
    serializable = psycopg.conninfo.make_conninfo(url, options="-c default_transaction_isolation=serializable")
    with ThreadPoolExecutor(8) as threads:
        done = [
            threads.submit(
                make(serializable).transact, str(uuid4()), key._replace(name=f"step {number % 4}"), count(name)
            )
            for number in range(8)
        ]
        assert sorted(each.result(60).result for each in done) == sorted([b"1", b"2", b"3", b"4"] * 2)
    assert number_of(url, name) == 4


@pytest.mark.parametrize(
    "misuse",
    [
        lambda connection: connection.commit(),
        lambda connection: connection.rollback(),
        lambda connection: setattr(connection, "autocommit", True),
        lambda connection: connection.execute("ROLLBACK"),
        lambda connection: connection.execute("ROLLBACK").connection.execute("BEGIN"),
    ],
    ids=["commit()", "rollback()", "autocommit", "ROLLBACK", "ROLLBACK and BEGIN"],
)
def test_a_function_that_ends_its_transaction_fails_and_writes_nothing(
    database: UserDatabase, url: str, key: StepKey, name: str, misuse: Any
) -> None:
    def misused(connection: psycopg.Connection[Any]) -> bytes:
        add_one(connection, name)
        misuse(connection)
        return count(name)(connection)

    with pytest.raises((psycopg.ProgrammingError, StepError)):
        database.transact(str(uuid4()), key, misused)
    assert number_of(url, name) is None
    assert database.transact(str(uuid4()), key, count(name)).result == b"1"


@pytest.mark.parametrize("end", ["COMMIT", "COMMIT; BEGIN"])
def test_what_a_function_has_committed_by_itself_is_never_written_again(
    database: UserDatabase, url: str, key: StepKey, name: str, end: Any
) -> None:
    def misused(connection: psycopg.Connection[Any]) -> bytes:
        add_one(connection, name)
        connection.execute(end)
        return count(name)(connection)

    with pytest.raises(StepError, match="ended the transaction by a COMMIT or ROLLBACK"):
        database.transact(str(uuid4()), key, misused)
    with pytest.raises(StepError, match="its function was not called"):
        database.transact(str(uuid4()), key, never)
    assert number_of(url, name) == 1


def test_a_function_that_raises_rollback_has_no_result(
    database: UserDatabase, url: str, key: StepKey, name: str
) -> None:
    def roll_back(connection: psycopg.Connection[Any]) -> bytes:
        add_one(connection, name)
        raise psycopg.Rollback

    with pytest.raises(StepError, match=r"psycopg\.Rollback"):
        database.transact(str(uuid4()), key, roll_back)
    assert number_of(url, name) is None


def test_a_function_may_have_savepoints(database: UserDatabase, url: str, key: StepKey, name: str) -> None:
    def with_savepoint(connection: psycopg.Connection[Any]) -> bytes:
        with connection.transaction(force_rollback=True):
            add_one(connection, name)
        return count(name)(connection)

    assert database.transact(str(uuid4()), key, with_savepoint).result == b"1"


def test_nothing_that_a_function_sets_is_there_for_the_next_one(
    database: UserDatabase, key: StepKey, name: str
) -> None:
    def leave(connection: psycopg.Connection[Any]) -> bytes:
        connection.execute("SET search_path = pg_catalog; SET statement_timeout = 4321; SET timezone = 'Asia/Tokyo'")
        connection.execute("CREATE TEMP TABLE left_behind (n integer)")
        connection.execute("SELECT pg_advisory_lock(4711)")
        connection.row_factory = psycopg.rows.dict_row
        return b"1"

    def look(connection: psycopg.Connection[Any]) -> bytes:
        row = connection.execute(
            "SELECT current_setting('search_path'), current_setting('statement_timeout'), to_regclass('left_behind'), "
            "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), "
            "current_setting('timezone')"
        ).fetchone()
        assert row == ('"$user", public', "5s", None, 0, "UTC")
        return b"2"

    backend = database.connected().info.backend_pid
    database.transact(str(uuid4()), key, leave)
    database.transact(str(uuid4()), key._replace(name="next"), look)
    assert database.connected().info.backend_pid == backend


def test_statements_of_sqlalchemy_are_executed_as_the_page_shows(
    database: UserDatabase, url: str, key: StepKey, name: str
) -> None:
    (recipe,) = (
        text for text in blocks(DOCS / "how-to/execute/write-rows-exactly-once.md", "python") if "Dialect" in text
    )
    shown: dict[str, Any] = {}
    exec(recipe, shown)
    execute = shown["execute"]
    shipments = sqlalchemy.Table(
        f"shipments of {name}",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("number", sqlalchemy.Integer, sqlalchemy.Identity(), primary_key=True),
        sqlalchemy.Column("order id", sqlalchemy.Uuid),
        sqlalchemy.Column("label", sqlalchemy.Text),
        sqlalchemy.Column("parcels", JSONB),
    )
    order = uuid4()

    def write(connection: psycopg.Connection[Any]) -> bytes:
        execute(connection, sqlalchemy.schema.CreateTable(shipments))
        rows = [{"order id": order, "label": label, "parcels": Jsonb({"kg": [1]})} for label in ("5%", "%s")]
        numbers = execute(connection, insert(shipments).values(rows).returning(shipments.c.number)).fetchall()
        assert numbers == [(1,), (2,)]
        of_order = shipments.c["order id"] == order
        execute(connection, sqlalchemy.update(shipments).where(of_order).values(label=shipments.c.label + " (ä)"))
        asked = sqlalchemy.select(shipments.c.label, shipments.c.parcels).where(
            shipments.c.number.in_([2, 3]), of_order
        )
        assert execute(connection, asked).fetchall() == [("%s (ä)", {"kg": [1]})]
        return b"1"

    database.transact(str(uuid4()), key, write)
    with psycopg.connect(url) as connection:
        assert execute(connection, sqlalchemy.select(sqlalchemy.func.count()).select_from(shipments)).fetchone() == (2,)


def test_a_constraint_that_waits_too_long_at_the_end_is_the_error_of_the_run(
    make: Make, url: str, key: StepKey, name: str
) -> None:
    called: list[int] = []
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE TABLE parents (id text PRIMARY KEY)")
        other.execute("CREATE TABLE children (id text REFERENCES parents DEFERRABLE INITIALLY DEFERRED)")
        other.execute("INSERT INTO parents VALUES (%s)", [name])

        def refer(connection: psycopg.Connection[Any]) -> bytes:
            called.append(1)
            connection.execute("INSERT INTO children VALUES (%s)", [name])
            return b"1"

        database = make(lock_timeout=0.1)
        with other.transaction():
            other.execute("SELECT FROM parents FOR UPDATE")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                database.transact(str(uuid4()), key, refer)
        assert called == [1]
        assert database.transact(str(uuid4()), key, refer).result == b"1"


@pytest.mark.parametrize(
    ("limit", "wait", "error"),
    [
        ("statement_timeout", "SELECT pg_sleep(20)", psycopg.errors.QueryCanceled),
        ("lock_timeout", "LOCK TABLE counters", psycopg.errors.LockNotAvailable),
        ("idle_timeout", None, psycopg.errors.IdleInTransactionSessionTimeout),
    ],
)
def test_a_transaction_has_the_limits_of_its_workflow(
    make: Make, key: StepKey, limit: str, wait: Any, error: type[Exception]
) -> None:
    def wait_too_long(connection: psycopg.Connection[Any]) -> bytes:
        if wait is None:
            time.sleep(1)
        else:
            connection.execute(wait)
        return b"1"

    database = make(**{limit: 0.1})
    with psycopg.connect(database._text) as other:
        other.execute("LOCK TABLE counters IN ACCESS SHARE MODE")
        with pytest.raises(error):
            database.transact(str(uuid4()), key, wait_too_long)


def test_without_its_table_the_error_names_the_command(stack: LocalStack, make: Make, key: StepKey, url: str) -> None:
    with pytest.raises(StepsTableMissingError) as caught:
        make(stack.database_url).transact(str(uuid4()), key, never)
    assert "`workorders steps create-table --connection shop_db`" in str(caught.value)

    def missing(connection: psycopg.Connection[Any]) -> bytes:
        connection.execute("SELECT FROM nowhere")
        return b"1"

    with pytest.raises(psycopg.errors.UndefinedTable):
        make().transact(str(uuid4()), key, missing)


@pytest.mark.parametrize("when", ["within a transaction", "after it has committed"])
def test_a_function_that_deallocates_all_is_called_again_only_after_a_rollback(
    database: UserDatabase, url: str, key: StepKey, name: str, when: str
) -> None:
    def deallocate(connection: psycopg.Connection[Any]) -> bytes:
        result = count(name)(connection)
        connection.execute("DEALLOCATE ALL" if when == "within a transaction" else "COMMIT; DEALLOCATE ALL")
        return result

    if when == "within a transaction":
        for each, number in (("count", b"1"), ("another", b"2")):
            assert database.transact(str(uuid4()), key._replace(name=each), deallocate).result == number
    else:
        with pytest.raises(StepError, match="has ended the transaction"):
            database.transact(str(uuid4()), key, deallocate)
        with pytest.raises(StepError, match="has no result"):
            database.transact(str(uuid4()), key, never)
    assert number_of(url, name) == (2 if when == "within a transaction" else 1)


def test_a_pooler_may_give_each_transaction_another_session(
    stack: LocalStack, make: Make, key: StepKey, name: str
) -> None:
    url = user_database(stack, f"pooled_{uuid4().hex[:8]}")
    pooler = PgBouncer(url.rsplit("/", 1)[1], "transaction")
    pooler.start(stack.processes, stack.home, url)
    databases = [make(pooler.url), make(pooler.url)]
    with psycopg.connect(pooler.url) as other:
        for number in range(6):
            if number == 3:  # It keeps the session in which the statements are prepared.
                other.execute("SELECT 1")
            done = databases[number % 2].transact(str(uuid4()), key._replace(name=f"n{number}"), count(name))
            assert done.result == b"%d" % (number + 1)
    assert number_of(url, name) == 6
    pooler.stop()


def test_threads_take_turns_at_the_connection(database: UserDatabase, url: str, key: StepKey, name: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(30):
            threads.submit(database.transact, str(uuid4()), key._replace(name=f"step {number}"), count(name))
    assert number_of(url, name) == 30


def test_a_forked_copy_does_not_use_the_connection(database: UserDatabase, url: str, key: StepKey, name: str) -> None:
    database.transact(str(uuid4()), key, count(name))
    if (pid := os.fork()) == 0:
        try:
            database.transact(str(uuid4()), key._replace(name="copy"), count(name))
        except StepError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    database.transact(str(uuid4()), key._replace(name="next"), count(name))
    assert number_of(url, name) == 2
