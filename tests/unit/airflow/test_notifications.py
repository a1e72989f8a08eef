"""Notifiers are found by name and called so that they can hurt nothing."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from workorders.airflow import notifications
from workorders.airflow.notifications import load_notifiers, notify, resolve
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.ledger.stalls import Alert

ALERT = Alert("shop", "orders", 0, 100, datetime(2026, 3, 1, 12, tzinfo=UTC), 110, 70, "It is full.", cleared=False)


class Log:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, text: str, *arguments: Any) -> None:
        self.lines.append(text % arguments)


class Template(BaseNotifier):
    """A notifier as providers have them: with a template."""

    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.sent: list[tuple[str, Any]] = []

    def notify(self, context: Any) -> None:
        self.sent.append((self.text, context["ti"]))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made = ModuleType("shop_alerts")
    monkeypatch.setitem(sys.modules, "shop_alerts", made)
    return made


@pytest.fixture
def log() -> Log:
    return Log()


def call(notifier: Any, log: Log, alert: Alert = ALERT) -> bool:
    return notify("shop_alerts.page", notifier, alert, {"ti": "the task"}, log)  # type: ignore[typeddict-item]


def test_a_function_gets_the_alert(module: Any, log: Log) -> None:
    seen: list[Alert] = []
    module.page = seen.append
    call(resolve("shop_alerts.page"), log)
    assert (seen, log.lines) == ([ALERT], [])


def test_a_notifier_of_airflow_gets_the_tasks_context_with_the_alert_in_it(module: Any, log: Log) -> None:
    module.page = Template("{{ alert.topic }} {{ alert.partition }}: {{ alert.sentence }}")
    call(resolve("shop_alerts.page"), log)
    assert module.page.sent == [(f"orders 0: {ALERT.sentence}", "the task")]
    assert log.lines == []


def test_an_ordinary_callback_gets_the_tasks_context_once_per_stall_and_not_at_its_end(module: Any, log: Log) -> None:
    seen: list[Any] = []

    def page(context: Any) -> None:
        seen.append(context)

    module.page = page
    assert call(resolve("shop_alerts.page"), log)
    assert call(resolve("shop_alerts.page"), log, alert=replace(ALERT, cleared=True))
    assert seen == [{"ti": "the task", "alert": ALERT, "exception": ALERT.sentence}]
    assert log.lines == []


@pytest.mark.parametrize("failure", [RuntimeError("no network"), SystemExit(3)])
def test_a_notifier_that_fails_is_logged_and_hurts_nothing(log: Log, failure: BaseException) -> None:
    def page(_: Alert) -> None:
        raise failure

    assert call(page, log)
    assert log.lines == [
        f"The notifier shop_alerts.page failed: {type(failure).__name__}: {failure}. The alert is in this log."
    ]


def test_a_notifier_that_hangs_is_left_alone(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(notifications, "MAX_SECONDS", 0.05)
    assert not call(lambda _: released.wait(60), log)
    released.set()
    assert log.lines == ["The notifier shop_alerts.page did not return within 0 s and is abandoned."]


async def coroutine(_: Alert) -> None:
    """Would never run."""


@pytest.mark.parametrize("wrong", [Template, coroutine, "a text", None])
def test_what_would_be_called_in_vain_is_refused(module: Any, wrong: object) -> None:
    module.page = wrong
    with pytest.raises(ConfigurationError, match="neither a function that takes an alert nor an instance"):
        resolve("shop_alerts.page")


@pytest.mark.parametrize("path", ["no_such_module.page", "shop_alerts.missing"])
def test_a_notifier_that_cannot_be_imported_is_logged_and_stops_no_other(module: Any, log: Log, path: str) -> None:
    module.page = print
    assert load_notifiers([path, "shop_alerts.page"], log) == {"shop_alerts.page": print}
    (line,) = log.lines
    assert line.startswith(f"The notifier {path} cannot be imported: ")
