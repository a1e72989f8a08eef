"""What idempotency keys and sequences cost: `create_for` with rules, in turns with the same items without."""

import gc
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from benchmarks import messages
from benchmarks.create_for import empty_tables
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.trigger import Idempotency, Sequence
from workorders.core.items import Item
from workorders.core.postgres.connection import connect

_STREAM: Final = "observations/0@benchmark"
_NUMBERS_A_KEY: Final = 20
_ONE_IN: Final = 10
_SHUFFLED: Final = 1000
"""Messages among which the order is lost."""

PLAIN: Final = "without rules"
KEYS: Final = "idempotency keys"
REPEATED: Final = "idempotency keys, one in ten repeated"
NUMBERS: Final = "sequences of twenty"
OUT_OF_ORDER: Final = "sequences of twenty, out of order"
WAYS: Final = (PLAIN, KEYS, REPEATED, NUMBERS, OUT_OF_ORDER)

_RULES: Final[dict[str, dict[str, Any]]] = {
    KEYS: {"idempotency": {"key": "body:/id", "window": "1h"}},
    NUMBERS: {"sequence": {"key": "body:/order", "number": "body:/version"}},
}
_RULES_OF: Final = {PLAIN: {}, KEYS: _RULES[KEYS], REPEATED: _RULES[KEYS], NUMBERS: _RULES[NUMBERS]} | {
    OUT_OF_ORDER: _RULES[NUMBERS]
}


@dataclass(frozen=True, slots=True)
class _Load:
    url: str
    way: str
    count: int

    def items(self) -> list[Item]:
        """Return items that have an id, the key of a sequence and a number, whichever way it is."""
        items = [item._replace(body=body) for item, body in zip(self._plain(), self._bodies(), strict=True)]
        if self.way == REPEATED:
            return [
                item._replace(body=items[place - 1].body) if place % _ONE_IN == _ONE_IN - 1 else item
                for place, item in enumerate(items)
            ]
        return items

    def _plain(self) -> Iterator[Item]:
        return messages.items("observations", 0, self.count, _STREAM)

    def _bodies(self) -> Iterator[bytes]:
        numbers = list(range(self.count))
        if self.way == OUT_OF_ORDER:
            chance = random.Random(7)
            parts = (numbers[start : start + _SHUFFLED] for start in range(0, self.count, _SHUFFLED))
            numbers = [number for part in parts for number in chance.sample(part, len(part))]
        for number in numbers:
            order, version = divmod(number, _NUMBERS_A_KEY)
            yield messages.value(number)[:-1] + b',"order":"order-%d","version":%d}' % (order, version)


def rows_per_second(url: str, way: str, count: int) -> float:
    """Create `count` work orders in one transaction, commit included."""
    load = _Load(url, way, count)
    rules = _RULES_OF[load.way]
    models: dict[str, type[BaseModel]] = {"idempotency": Idempotency, "sequence": Sequence}
    definition = {name: models[name].model_validate(rule).model_dump(mode="json") for name, rule in rules.items()}
    with connect(load.url) as connection:
        empty_tables(connection)
        connection.execute("TRUNCATE workorders.idempotency_keys, workorders.sequences")
        trigger = triggers.register(
            connection, name="dedup", type_="kafka", workflow="benchmark", definition=definition
        )
        connection.commit()
        items = load.items()
        gc.collect()
        begun = time.monotonic()
        with connection.transaction():
            created = create_for(connection, trigger, items, fresh=True)
        seconds = time.monotonic() - begun
        waiting = connection.execute("SELECT count(*) FROM workorders.work_orders WHERE state = 'pending'").fetchone()
    refused = load.count // _ONE_IN if load.way == REPEATED else 0
    if (created.rejected_by_rule, waiting) != (refused, (load.count - refused,)):
        raise RuntimeError(f"{created} came of {load.count} messages, of which {waiting} wait.")
    return count / seconds
