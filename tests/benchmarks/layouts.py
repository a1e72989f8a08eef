"""Three ways to lay work orders out in tables, as SQL: what `layout` compares.

Every one keeps the same values under the same keys, and a run for each work order that was worked at.
"""

from dataclasses import dataclass

_NARROW = """\
    id uuid PRIMARY KEY, position bigint, created_at timestamptz NOT NULL DEFAULT now(), trigger_id integer NOT NULL,
    workflow_id integer NOT NULL, stream_id integer, state text NOT NULL"""
_RUNS = """\
CREATE TABLE layout.runs (
    id uuid PRIMARY KEY, work_order_id uuid NOT NULL, attempt integer NOT NULL, state text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(), claimed_at timestamptz, finished_at timestamptz,
    UNIQUE (work_order_id, attempt))"""
_CLIPS = "CREATE TABLE layout.dataclips (id uuid PRIMARY KEY, body jsonb, request jsonb NOT NULL)"
SAMPLES = 10_000
"""Inputs that the work orders share in turns: what is measured is how they are stored, not how they are made."""
MAKE_SAMPLES = f"""\
CREATE TEMPORARY TABLE samples ON COMMIT PRESERVE ROWS AS
SELECT n AS number,
    jsonb_build_object('resourceType', 'Observation', 'id', 'obs-' || n, 'status', 'final', 'code', '8867-4',
        'subject', 'Patient/' || n % 103, 'effective', '2025-06-15T10:00:00Z', 'value', n % 1000 / 10.0,
        'unit', 'beats/minute', 'device', 'monitor-' || n % 97, 'note', 'taken at rest') AS body,
    jsonb_build_object('topic', 'observations', 'partition', 0, 'offset', n, 'key', 'patient-' || n % 103,
        'timestamp', 1750000000000, 'timestamp_type', 'CreateTime', 'headers',
        jsonb_build_array(jsonb_build_array('content-type', 'application/fhir+json'))) AS request
FROM generate_series(0, {SAMPLES - 1}) AS n"""
# Ids that grow, as ours do, and that can be told again from a number.
_ID = "lpad(to_hex(n), 32, '0')::uuid"
_FROM = "FROM generate_series(%(start)s::bigint, %(end)s::bigint - 1) AS n"
_FROM_SAMPLES = f"{_FROM} JOIN samples ON samples.number = n %% {SAMPLES}"
_CLAIM_AT_ONCE = """\
INSERT INTO layout.runs (id, work_order_id, attempt, state, claimed_at)
SELECT id, id, 1, 'claimed', now() FROM unnest(%(ids)s::uuid[]) AS id"""
_CLAIM_WAITING = "UPDATE layout.runs SET state = 'claimed', claimed_at = now() WHERE id = ANY (%(ids)s::uuid[])"
_STATE = "UPDATE layout.work_orders SET state = '{}' WHERE id = ANY (%(ids)s::uuid[])"
_FINISH = "UPDATE layout.runs SET state = 'success', finished_at = now() WHERE id = ANY (%(ids)s::uuid[])"


@dataclass(frozen=True, slots=True)
class Layout:
    """One way."""

    name: str
    create: tuple[str, ...]
    """Makes the tables, in the schema `layout`."""
    fill: tuple[str, ...]
    """Makes the work orders number `start` to `end`."""
    claim: tuple[str, ...]
    """Gives the work orders `ids` a run that is claimed."""
    wipe: str
    """Forgets the input of the work orders `ids`."""

    @property
    def finish(self) -> tuple[str, ...]:
        """Ends the runs of the work orders `ids` in success."""
        return (_FINISH, _STATE.format("success"))


_FILL_WORK_ORDERS = f"""\
INSERT INTO layout.work_orders (id, position, trigger_id, workflow_id, stream_id, state)
SELECT {_ID}, n, 1, 1, 1, 'pending' {_FROM}"""
_FILL_CLIPS = f"INSERT INTO layout.dataclips (id, body, request) SELECT {_ID}, body, request {_FROM_SAMPLES}"
_FILL_RUNS = f"""\
INSERT INTO layout.runs (id, work_order_id, attempt, state) SELECT {_ID}, {_ID}, 1, 'available' {_FROM}"""
_NARROW_TABLE = f"CREATE TABLE layout.work_orders ({_NARROW}, UNIQUE (stream_id, position))"

TWO_TABLES = Layout(
    "two tables: work order, dataclip (ours)",
    (_NARROW_TABLE, _CLIPS, _RUNS),
    (_FILL_WORK_ORDERS, _FILL_CLIPS),
    (_CLAIM_AT_ONCE, _STATE.format("running")),
    "DELETE FROM layout.dataclips WHERE id = ANY (%(ids)s::uuid[])",
)
THREE_TABLES = Layout(
    "three tables: work order, dataclip, run",
    (_NARROW_TABLE, _CLIPS, _RUNS),
    (_FILL_WORK_ORDERS, _FILL_CLIPS, _FILL_RUNS),
    (_CLAIM_WAITING, _STATE.format("running")),
    TWO_TABLES.wipe,
)
ONE_TABLE = Layout(
    "one table: everything in the work order",
    (
        f"CREATE TABLE layout.work_orders ({_NARROW}, body jsonb, request jsonb, UNIQUE (stream_id, position))",
        _RUNS,
    ),
    (
        f"INSERT INTO layout.work_orders (id, position, trigger_id, workflow_id, stream_id, state, body, request) "
        f"SELECT {_ID}, n, 1, 1, 1, 'pending', body, request {_FROM_SAMPLES}",
    ),
    TWO_TABLES.claim,
    "UPDATE layout.work_orders SET body = NULL, request = NULL WHERE id = ANY (%(ids)s::uuid[])",
)
LAYOUTS = (TWO_TABLES, THREE_TABLES, ONE_TABLE)
