"""The faults: each is one function that gets a case, starts the tool, injects, and lifts the fault again."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compare.case import PARTITIONS, Case
from faults.cases.clocks import clock
from faults.catalogue import NotPossibleError
from faults.disk import small_disk
from faults.processes import pause
from local_stack.debian import find_program
from local_stack.errors import StackError
from local_stack.java import find_java

Injection = Callable[[Case], None]

_HOUR: Final = 3600
_JAVA_AT: Final = """\
#!/bin/sh
export LD_PRELOAD={library} FAKETIME={shift:+}s
# The time of day alone: waits take as long as they should. Nothing is left in shared memory when it is killed.
export DONT_FAKE_MONOTONIC=1 FAKETIME_FORCE_MONOTONIC_FIX=0 FAKETIME_DISABLE_SHM=1
exec {java} "$@"
"""
_TIMES: Final = 5
_KILLS: Final = 3
_REPLAYED: Final = 100
_ONCE: Final = """
    CREATE SEQUENCE {table}_once;
    CREATE FUNCTION {table}_fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        IF (NEW.body ->> 'seq')::integer = 100 AND nextval('{table}_once') = 1 THEN
            RAISE EXCEPTION 'this message fails once';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER fail BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_fail();
"""
_TERMINATE: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND usename <> 'postgres'
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    inject: Injection
    must_be_seen: bool
    """Whether an operator has to know, even if each message that is left has its row: others are gone."""

    @property
    def slug(self) -> str:
        """The name as a part of topics' names, and on the command line."""
        return self.inject.__name__.replace("_", "-")


FAULTS: Final[dict[str, Fault]] = {}


def fault(name: str, *, must_be_seen: bool = False) -> Callable[[Injection], Injection]:
    """Add a function to the list."""

    def add(inject: Injection) -> Injection:
        found = Fault(name, inject, must_be_seen)
        FAULTS[found.slug] = found
        return inject

    return add


@fault("none")
def none(case: Case) -> None:
    case.start()
    case.produce()
    case.until_rows()
    case.mark()


def _killed_at_commit(case: Case, *, lose_answer: bool) -> None:
    case.produce()
    with case.site.postgres.breakpoint(case.peer.at_commit(case, lose_answer=lose_answer)) as point:
        case.start()
        point.wait(case.patience)
        case.mark()
        case.stop()
    case.again()


@fault("consumer killed before a COMMIT of rows")
def killed_before_commit(case: Case) -> None:
    _killed_at_commit(case, lose_answer=False)


@fault("consumer killed after a COMMIT of rows, before it knows")
def killed_after_commit(case: Case) -> None:
    _killed_at_commit(case, lose_answer=True)


@fault("consumer killed three times, each while it writes rows")
def killed_at_random(case: Case) -> None:
    case.start()
    case.mark()
    for _ in range(_KILLS):
        begun = case.rows()
        case.produce()
        case.until_rows(begun + 1)
        pause(case.random.uniform(0, 1))
        case.again()


@fault("answer to a COMMIT of rows lost, connection cut")
def cut_during_commit(case: Case) -> None:
    case.produce()
    with case.site.postgres.breakpoint(case.peer.at_commit(case, lose_answer=True)) as point:
        case.start()
        point.wait(case.patience)
        case.mark()


@fault("all sessions of Postgres ended five times")
def sessions_ended(case: Case) -> None:
    case.start()
    case.produce()
    case.until_rows()
    case.mark()
    for _ in range(_TIMES):
        case.site.admin(_TERMINATE)
        pause(2)


@fault("Postgres killed and restarted")
def postgres_killed(case: Case) -> None:
    case.start()
    case.produce()
    case.until_rows()
    case.mark()
    case.site.stack.postgres.kill()
    pause(3)
    case.site.stack.postgres.start()


@fault("broker killed and restarted")
def broker_killed(case: Case) -> None:
    case.start()
    case.produce()
    case.until_rows()
    case.mark()
    case.site.stack.kafka.kill()
    pause(3)
    case.site.stack.kafka.start()
    case.produce(case.messages // 10)


@fault("disk of Postgres full for ten seconds")
def disk_full(case: Case) -> None:
    with small_disk(case.site, case.table) as disk:
        disk.fill()
        case.start()
        case.produce()
        case.mark()
        pause(10)
        disk.free()
        case.settle()


@fault("topic re-created, new messages at the old offsets", must_be_seen=True)
def topic_recreated(case: Case) -> None:
    case.start()
    case.produce()
    case.finish()
    case.mark()
    case.topics.delete(case.topic)
    case.topics.create(case.topic, PARTITIONS)
    case.produce(case.messages // 10)


@fault("unread messages deleted by retention", must_be_seen=True)
def retention(case: Case) -> None:
    case.start()
    case.produce()
    case.finish()
    case.stop()
    lost = case.produce(case.messages // 10)
    for partition, end in case.ends().items():
        case.topics.delete_before(case.topic, end, partition)
    case.sent = [message for message in case.sent if message not in lost]
    case.produce(case.messages // 10)
    case.mark()
    case.again()


@fault("consumer group's offsets reset to 0")
def group_reset(case: Case) -> None:
    if case.peer.without_group:
        raise NotPossibleError(case.peer.without_group)
    case.start()
    case.produce()
    case.finish()
    case.stop()
    case.reset_group(dict.fromkeys(range(PARTITIONS), 0))
    case.mark()
    case.again()
    case.produce(case.messages // 10)


@fault("about 100 messages read again on purpose")
def replay(case: Case) -> None:
    case.start()
    case.produce()
    case.finish()
    case.mark()
    offsets = {partition: end - _REPLAYED // PARTITIONS for partition, end in case.ends().items()}
    case.remedies.append(case.peer.replay(case, offsets))
    case.produce(case.messages // 10)


@fault("a JSON object that Postgres refuses, in each partition")
def poison(case: Case) -> None:
    case.start()
    case.produce(case.messages // 2)
    case.until_rows()
    case.mark()
    case.produce_poison()
    case.produce(case.messages // 2)


@fault("one message fails once")
def fails_once(case: Case) -> None:
    case.site.admin(_ONCE.format(table=case.table))
    case.produce()
    case.start()
    case.until_rows()
    case.mark()


@fault("two consumers of one configuration by mistake")
def two_consumers(case: Case) -> None:
    case.start(2)
    case.produce()
    case.until_rows()
    case.mark()
    case.produce(case.messages // 2)


@fault("clock an hour ahead, then an hour behind")
def clock_step(case: Case) -> None:
    for shift in (_HOUR, -_HOUR):
        case.forget()
        case.variables = _java_clock(case, shift) if case.peer.in_java else clock(shift)
        case.start()
        case.produce(case.messages // 2)
        case.settle()  # a kill at work would be a fault of its own
    case.mark()


def _java_clock(case: Case, shift: int) -> dict[str, str]:
    """Return a Java with another clock. A Python process under faketime does not sleep, or for an hour too long."""
    try:
        find_program("faketime", "faketime")
    except StackError as reason:
        raise NotPossibleError(str(reason)) from reason
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    program = case.site.stack.home / f"{case.topic}{shift:+}" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(_JAVA_AT.format(library=library, shift=shift, java=find_java().program), encoding="utf-8")
    program.chmod(0o755)
    return {"JAVA_HOME": str(program.parents[1])}
