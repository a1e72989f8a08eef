"""How fast people find work orders among many, and how fast many are rerun."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from workorders.core import bulk, counts, history, jobs, search, triggers
from workorders.core.database import Connection, connect
from workorders.core.filters import Filter

_CHUNK: Final = 100_000
_NAME: Final = "search-bench"
_PATIENTS: Final = 200_000
_PAGE: Final = 50

_EMPTY = """
TRUNCATE workorders.work_orders, workorders.dataclips, workorders.rejections, workorders.runs, workorders.search_words,
    workorders.history_marks, workorders.bulk_jobs CASCADE
"""
# Ids of version 7, ten a millisecond, that end now; one in 1,000 work orders failed.
_IDS = """
CREATE OR REPLACE FUNCTION pg_temp.id_of(number bigint, rows bigint) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 60000 - (rows - number) / 10), 12, '0')
        || '7000' || '8000' || lpad(to_hex(number), 12, '0'))::uuid
$$
"""
_WORK_ORDERS = """
INSERT INTO workorders.work_orders (id, position, created_at, trigger_id, workflow_id, stream_id, state)
SELECT pg_temp.id_of(number, %(rows)s), number, now() - (%(rows)s - number) * interval '0.1 ms' - interval '1 minute',
    %(trigger_id)s, %(workflow_id)s, %(stream_id)s,
    (CASE WHEN number %% 1000 = 7 THEN 'failed' ELSE 'success' END)::workorders.work_order_state
FROM generate_series(%(start)s::bigint, %(end)s::bigint - 1) AS number
"""
_DATACLIPS = """
INSERT INTO workorders.dataclips (id, body, request)
SELECT pg_temp.id_of(number, %(rows)s),
    jsonb_build_object(
        'event', jsonb_build_object(
            'id', 'EV-' || lpad(number::text, 9, '0'),
            'kind', (ARRAY['admission', 'discharge', 'transfer', 'observation', 'order'])[1 + number %% 5]),
        'patient', jsonb_build_object(
            'id', 'PAT-' || lpad((number %% 200000)::text, 6, '0'),
            'name', (ARRAY['Ada', 'Grace', 'Linus', 'Edsger', 'Barbara', 'Donald', 'Tony', 'Zoë'])[1 + number / 7 %% 8]
                || ' '
                || (ARRAY['Lovelace', 'Hopper', 'Dijkstra', 'Liskov', 'Knuth', 'Hoare'])[1 + number / 13 %% 6],
            'ward', 'W' || number %% 97),
        'code', 'C' || (hashint8(number) & 4095), 'value', (hashint8(number) & 1048575) / 100.0,
        'note', 'seen by nurse N' || number %% 5000 || ', stable'),
    jsonb_build_object('topic', 'observations', 'partition', 0, 'offset', number,
        'key', 'PAT-' || lpad((number %% 200000)::text, 6, '0'), 'headers', '[]'::jsonb)
FROM generate_series(%(start)s::bigint, %(end)s::bigint - 1) AS number
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What finding and rerunning cost."""

    filled_per_second: float
    """Work orders whose words were added to the full text, by one process."""
    milliseconds: Mapping[str, list[float]]
    """Times of a page of 50, by the kind of question."""
    counted_milliseconds: list[float]
    """Times of the counts by state at hand."""
    rerun_per_second: float
    bytes_a_work_order: float
    """Of the full text on the disk, with its indexes."""


def measure(url: str, rows: int, rounds: int, say: Callable[[str], None]) -> Found:
    """Make `rows` finished work orders with their full text, ask questions, and rerun those that failed."""
    with connect(url, autocommit=True, application_name="benchmark") as connection:
        connection.execute("SET statement_timeout = 0")
        _fill(connection, rows, say)
        say(f"words of {rows:,} work orders")
        begun = time.monotonic()
        while search.fill(connection):
            pass
        filling = time.monotonic() - begun
        for table in ("work_orders", "dataclips", "search_words"):
            connection.execute(f"VACUUM (ANALYZE) workorders.{table}")
        counts.recount(connection, even_if_recent=True)
        say("questions")
        times = _ask(connection, rows, rounds)
        counted = [_milliseconds(lambda: counts.latest(connection, trigger=_NAME)) for _ in range(rounds)]
        size = connection.execute("SELECT pg_total_relation_size('workorders.search_words')").fetchone() or (0,)
        say("reruns")
        job = jobs.create(connection, "rerun", Filter(trigger=_NAME, state="success"), who="benchmark", why="benchmark")
        return Found(rows / filling, times, counted, _rerun(connection, job.id, rows), size[0] / rows)


def _fill(connection: Connection, rows: int, say: Callable[[str], None]) -> None:
    connection.execute(_EMPTY)
    connection.execute(_IDS)
    trigger = triggers.register(connection, name=_NAME, type_="plain", workflow=_NAME, definition={})
    stream_id = triggers.stream_id(connection, trigger, "observations/0@benchmark")
    say(f"{rows:,} work orders")
    with connection.transaction():  # one now() for all ids
        for start in range(0, rows, _CHUNK):
            arguments = {
                "rows": rows,
                "start": start,
                "end": min(start + _CHUNK, rows),
                "trigger_id": trigger.id,
                "workflow_id": trigger.workflow_id,
                "stream_id": stream_id,
            }
            connection.execute(_WORK_ORDERS, arguments)
            connection.execute(_DATACLIPS, arguments)


def _ask(connection: Connection, rows: int, rounds: int) -> dict[str, list[float]]:
    chance = Random(rows)
    questions: dict[str, Callable[[], Filter]] = {
        "newest": Filter,
        "state failed": lambda: Filter(state="failed"),
        "a stream's positions": lambda: Filter(stream="observations/0", from_position=chance.randrange(rows)),
        "a word in each": lambda: Filter(text="stable"),
        "a word in one of 97": lambda: Filter(text=f"W{chance.randrange(97)}"),
        "a word in one of 5,000": lambda: Filter(text=f"N{chance.randrange(5000)}"),
        "a patient": lambda: Filter(text=f"PAT-{chance.randrange(min(_PATIENTS, rows)):06}"),
        "one event": lambda: Filter(text=f"EV-{chance.randrange(rows):09}"),
        "a word in none": lambda: Filter(text="anaphylaxis"),
        "three words": lambda: Filter(text=f"Ada Knuth N{chance.randrange(5000)}"),
        "a beginning": lambda: Filter(text=f"EV-{chance.randrange(rows):09}"[:-1] + "*"),
        "failed, and a ward": lambda: Filter(text=f"W{chance.randrange(97)}", state="failed"),
    }
    times: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(rounds):
        for name, question in questions.items():
            wanted = question()
            times[name].append(_milliseconds(lambda: history.work_orders(connection, wanted, limit=_PAGE)))  # noqa: B023 - called at once
    return times


def _rerun(connection: Connection, job_id: int, rows: int) -> float:
    """Rerun for half a minute at most, and return work orders a second."""
    begun = time.monotonic()
    done = 0

    def enough(job: jobs.Job) -> None:
        nonlocal done
        done = job.done
        if time.monotonic() - begun > 30:
            jobs.cancel(connection, job_id)

    done = max(bulk.work(connection, job_id, progress=enough).done, done)
    return done / (time.monotonic() - begun)


def _milliseconds(step: Callable[[], object]) -> float:
    begun = time.perf_counter()
    step()
    return (time.perf_counter() - begun) * 1000
