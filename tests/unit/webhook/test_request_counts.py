"""When the answers of webhooks are added to the totals."""

import asyncio
from collections import Counter

import psycopg

from workorders.webhook.request_counts import Counts, RequestCounts


class Totals:
    """What was added; the first additions may fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.additions = 0
        self.found: Counter[tuple[str, int]] = Counter()

    async def add(self, database_connection: str, counts: Counts) -> None:
        """Add, or fail."""
        self.additions += 1
        if self.additions <= self.failures:
            raise psycopg.OperationalError("away")
        self.found.update(dict(counts))


async def until(total: int, totals: Totals) -> None:
    async with asyncio.timeout(10):
        while totals.found.total() < total:
            await asyncio.sleep(0.001)


def test_many_answers_are_added_at_once() -> None:
    totals = Totals()

    async def answer() -> None:
        counts = RequestCounts(totals.add, 0.0)
        for status in (201, 201, 429):
            counts.count("db", "shop", status)
        await until(3, totals)

    asyncio.run(answer())
    assert (totals.additions, totals.found) == (1, Counter({("shop", 201): 2, ("shop", 429): 1}))


def test_what_cannot_be_added_waits_for_the_next_answer() -> None:
    totals = Totals(failures=1)

    async def answer() -> None:
        counts = RequestCounts(totals.add, 0.0)
        counts.count("db", "shop", 201)
        while totals.additions < 1:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        counts.count("db", "shop", 503)
        await until(2, totals)

    asyncio.run(answer())
    assert totals.found == Counter({("shop", 201): 1, ("shop", 503): 1})
