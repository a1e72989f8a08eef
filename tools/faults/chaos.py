"""Faults at no named point, several at a time: what is hit, when, and for how long is drawn."""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Lock
from typing import Final

import psutil
import psycopg

from faults.breakpoints import BEFORE_COMMIT, Breakpoint
from faults.processes import pause
from faults.proxy import Proxy
from faults.site import Site

_MOST_AT_ONCE: Final = 3
_CALM_SECONDS: Final = (5.0, 25.0)
_WITHIN_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 25.0
"""Longer than every lease and every heartbeat of the product."""
_SESSIONS: Final = ("batch", "driver", "plan", "commit", "execute", "run", "outbox relay")
"""What follows `workorders ` in the names of the sessions whose COMMIT is held or loses its answer."""
_END_SESSIONS: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'workorders %'
"""


class Chaos:
    """Injects faults into a site.

    Args:
        site: where.
        victims: returns the processes that may be killed or stopped now.
        seed: repeats the draw. What is at work at that moment differs.
    """

    def __init__(self, site: Site, victims: Callable[[], Sequence[psutil.Process]], seed: int) -> None:
        self._site = site
        self._victims = victims
        self._random = Random(seed)
        self._one_at_a_time = {"postgres": Lock(), "kafka": Lock(), "server": Lock()}
        #: How often each fault was injected.
        self.injected: Counter[str] = Counter()

    def burst(self) -> None:
        """Inject up to three faults at about the same time, wait until they are over, and leave some calm.

        Raises:
            Exception: a part could not be started again.
        """
        drawn = [
            (self._random.choice(_FAULTS), self._random.uniform(0, _WITHIN_SECONDS), Random(self._random.random()))
            for _ in range(self._random.randint(1, _MOST_AT_ONCE))
        ]
        with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
            for future in [pool.submit(self._inject, *one) for one in drawn]:
                future.result()
        pause(self._random.uniform(*_CALM_SECONDS))

    def _inject(self, fault: "Callable[[Chaos, Random], bool]", after: float, random: Random) -> None:
        pause(after)
        if fault(self, random):
            self.injected[fault.__name__.strip("_").replace("_", " ")] += 1

    def _process_killed(self, random: Random) -> bool:
        with contextlib.suppress(IndexError, psutil.NoSuchProcess):
            random.choice(self._victims()).kill()
            return True
        return False

    def _process_stopped(self, random: Random) -> bool:
        with contextlib.suppress(IndexError, psutil.NoSuchProcess):
            victim = random.choice(self._victims())
            victim.suspend()
            pause(random.uniform(1, _LONGEST_SECONDS))
            victim.resume()
            return True
        return False

    def _postgres_killed(self, random: Random) -> bool:
        part = self._site.stack.postgres
        with self._one_at_a_time["postgres"]:
            part.kill()
            pause(random.uniform(0, 5))
            part.start()
        return True

    def _kafka_killed(self, random: Random) -> bool:
        part = self._site.stack.kafka
        with self._one_at_a_time["kafka"]:
            part.kill()
            pause(random.uniform(0, 10))
            part.start()
        return True

    def _spark_connect_server_killed(self, _: Random) -> bool:
        server = self._site.stack.spark_connect
        with self._one_at_a_time["server"]:
            if not server.is_started:
                return False
            server.process.kill()
        return True

    def _connections_cut(self, random: Random) -> bool:
        return self._wire(random).cut() > 0

    def _unreachable(self, random: Random) -> bool:
        with self._wire(random).unreachable():
            pause(random.uniform(1, _LONGEST_SECONDS))
        return True

    def _silent(self, random: Random) -> bool:
        with self._wire(random).stalled():
            pause(random.uniform(1, _LONGEST_SECONDS))
        return True

    def _slow(self, random: Random) -> bool:
        with self._wire(random).slow(random.uniform(0.02, 0.3)):
            pause(random.uniform(1, _LONGEST_SECONDS))
        return True

    def _commit_without_answer(self, random: Random) -> bool:
        return self._at_commit(random, lose_answer=True)

    def _commit_held(self, random: Random) -> bool:
        return self._at_commit(random, lose_answer=False)

    def _sessions_ended(self, _: Random) -> bool:
        with contextlib.suppress(psycopg.Error):
            return bool(self._site.admin(_END_SESSIONS)[0][0])
        return False

    def _wire(self, random: Random) -> Proxy:
        return random.choice([self._site.postgres, self._site.kafka])

    def _at_commit(self, random: Random, *, lose_answer: bool) -> bool:
        point = Breakpoint(f"workorders {random.choice(_SESSIONS)}", BEFORE_COMMIT, lose_answer=lose_answer)
        with self._site.postgres.breakpoint(point):
            pause(random.uniform(1, _LONGEST_SECONDS))
        return point.is_reached


_FAULTS: Final[tuple[Callable[[Chaos, Random], bool], ...]] = (
    Chaos._process_killed,
    Chaos._process_killed,
    Chaos._process_stopped,
    Chaos._process_stopped,
    Chaos._postgres_killed,
    Chaos._kafka_killed,
    Chaos._spark_connect_server_killed,
    Chaos._connections_cut,
    Chaos._unreachable,
    Chaos._silent,
    Chaos._slow,
    Chaos._commit_without_answer,
    Chaos._commit_without_answer,
    Chaos._commit_held,
    Chaos._sessions_ended,
)
