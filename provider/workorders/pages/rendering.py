"""From facts to HTML: the templates, and how they write numbers, times, and text that came from outside."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from math import inf
from typing import Any, Final
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from workorders import dag_ids
from workorders.core.states import OWNER_GONE
from workorders.kafka.partitions import PartitionState
from workorders.visible_text import safe

NOTHING: Final = "\u2013"
"""A dash, for what does not exist."""
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Place:
    """Where the pages and Airflow are, as the browser sees them."""

    pages: str
    """Path of the pages, without a slash at its end."""
    airflow: str
    """Path of Airflow, without a slash at its end; empty at the root of a host."""

    @classmethod
    def of(cls, request: Request) -> "Place":
        """Return the place in a request's scope, where Airflow has mounted the application."""
        scope = request.scope
        return cls(scope.get("root_path", "").rstrip("/"), scope.get("app_root_path", "").rstrip("/"))

    def page(self, *parts: object) -> str:
        """Return the path of a page; the parts are quoted, because names may contain anything."""
        return "/".join((self.pages, *(quote(str(part), safe="") for part in parts)))

    def dag(self, dag_id: str) -> str:
        """Return the path of a Dag in Airflow."""
        return f"{self.airflow}/dags/{quote(dag_id, safe='')}"

    def dag_run(self, dag_id: str, run_id: str) -> str:
        """Return the path of a Dag run in Airflow."""
        return f"{self.dag(dag_id)}/runs/{quote(run_id, safe='')}"

    def task(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the path of a task of a Dag run in Airflow."""
        return f"{self.dag_run(dag_id, run_id)}/tasks/{quote(task_id, safe='')}"

    def in_airflow(self, path: str) -> str:
        """Return the path at which Airflow shows a page of ours inside its own."""
        return f"{self.airflow}/plugin/workorders{path}"


def render(request: Request, template: str, *, code: int = 200, **facts: Any) -> HTMLResponse:
    """Return the page that a template makes of facts."""
    page = _templates().get_template(template)
    text = page.render(place=Place.of(request), request=request, code=code, dag_ids=dag_ids, **facts)
    return HTMLResponse(text, code)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("workorders.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (number, moment, duration, age, waited, visible, first_line, key_text, tone)
    environment.filters |= {filter_.__name__: filter_ for filter_ in filters}
    return environment


def number(value: float | None, limit: float = inf) -> str:
    """Return a number with separators, `10,000+` above a limit, and a question mark for None, which is not known."""
    if value is None:
        return "?"
    return f"{value:,}" if value <= limit else f"{limit:,}+"


def moment(when: datetime | None) -> Markup | str:
    """Return a point in time to the second in UTC, which the browser knows exactly; a dash for None."""
    if when is None:
        return NOTHING
    utc = when.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(utc.isoformat(), utc.strftime("%Y-%m-%d %H:%M:%S"))


def age(when: datetime | None, now: datetime) -> Markup | str:
    """Return how long ago a point in time is, or how long until then, with the exact time as its title."""
    if when is None:
        return NOTHING
    seconds = (now - when).total_seconds()
    words = f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"
    utc = when.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        utc.isoformat(), utc.strftime("%Y-%m-%d %H:%M:%S UTC"), words
    )


def duration(seconds: float | timedelta | None) -> str:
    """Return a duration in its two largest units: `3 h 12 min`; a dash for None."""
    if seconds is None:
        return NOTHING
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    seconds = max(seconds, 0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:  # noqa: PLR2004 - a digit more where it counts
        return f"{seconds:.1f} s"
    whole = int(seconds)
    place = next(place for place, (size, _) in enumerate(_UNITS) if whole >= size)
    size, name = _UNITS[place]
    part_size, part_name = _UNITS[min(place + 1, len(_UNITS) - 1)]
    rest = whole % size // part_size
    return f"{whole // size} {name}" + (f" {rest} {part_name}" if rest else "")


def waited(seconds: float | None, lag: int | None) -> str:
    """Return for how long the oldest message has waited; a dash if none waits, and a question mark if it is not known.

    What has come since the last look of the listener is younger than the two minutes for which that look counts.
    """
    if seconds is None:
        return "?"
    return "under 2 min" if lag and not seconds else duration(seconds or None)


def visible(text: str | None) -> str:
    """Return text from outside: what would turn around or hide the text next to it is written out."""
    return "" if text is None else safe(text)


def first_line(text: str | None, length: int = 160) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(visible(text).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def key_text(key: bytes | None) -> str:
    """Return the beginning of a message's key on one line; bytes that are no text are replaced."""
    # Cut before it is read: a key has no limit, and a page may show hundreds.
    return NOTHING if key is None else first_line(key[:320].decode(errors="replace"), 80)


_TONES: Final = {
    "bad": {
        *(state for state in PartitionState if state.needs_attention),
        *("failed", "crashed", "killed", "lost", "exception", "error", "failing", "held", "not running", OWNER_GONE),
    },
    "warn": {
        *(PartitionState.OPEN_TRANSACTION, PartitionState.BEHIND, PartitionState.NOT_PLANNED),
        *("rejected", "parked", "paused", "not moving", "not polling", "stuck", "unknown", "cancelled"),
    },
    "busy": {PartitionState.IN_BATCH, "running", "claimed", "started", "unfinished"},
    "good": {PartitionState.UP_TO_DATE, "success", "finished", "working"},
}
"""Colors of states; each state has its word as well, because no one has to tell colors apart."""


def tone(state: str) -> str:
    """Return the kind of color of a state: bad, warn, busy, good, or idle."""
    # The number of a batch may follow.
    state = PartitionState.IN_BATCH if state.startswith(PartitionState.IN_BATCH) else state
    return next((tone for tone, words in _TONES.items() if state in words), "idle")
