"""What a trigger's `notify` names: found by its import path, and called so that it can hurt nothing."""

import inspect
import logging
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from airflow.sdk import BaseNotifier

from workorders.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Context


class Alert(Protocol):
    """What a notifier is told, whoever found it out."""

    @property
    def sentence(self) -> str:
        """All of it in one plain sentence or two."""

    @property
    def cleared(self) -> bool:
        """Whether it is about the end of what was alerted of."""


LONGEST_SECONDS = 60.0
"""How long one notifier may take for one alert."""

Notifier = Callable[[Any], object]
Log = logging.Logger | Any
"""Airflow's tasks log with structlog, whose loggers have no class in common with logging's."""


def resolve(path: str) -> Notifier:
    """Return what an import path names.

    Raises:
        ConfigurationError: it cannot be imported, or is nothing that can be called with an alert.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(
            f"The notifier {path} cannot be imported: {type(error).__name__}: {error}; no alert reaches it until then."
        ) from error
    # A class would be called to make an instance, and a coroutine would never run: both would be silent.
    if not callable(found) or isinstance(found, type) or inspect.iscoroutinefunction(found):
        raise ConfigurationError(
            f"The notifier {path} is neither a function that takes an alert nor an instance of an Airflow notifier, "
            f"but of type {type(found).__name__}; no alert reaches it until then."
        )
    return found  # type: ignore[no-any-return]


def usable(paths: Iterable[str], log: Log) -> dict[str, Notifier]:
    """Return the notifiers that can be called, and say which cannot: at every attempt, not only in the bad night."""
    found = {}
    for path in paths:
        try:
            found[path] = resolve(path)
        except ConfigurationError as error:
            log.warning("%s", error)
    return found


def say(alerts: Iterable[Alert], notifiers: dict[str, Notifier], context: "Context", log: Log) -> None:
    """Log the alerts, then hand each to the notifiers; one that hangs is called with no further alert."""
    said = list(alerts)
    for alert in said:
        (log.warning if alert.cleared else log.error)("Alert: %s", alert.sentence)
    for alert in said:
        # One that hangs would hold up the next try by a minute for each of a hundred partitions.
        notifiers = {
            path: notifier for path, notifier in notifiers.items() if call(path, notifier, alert, context, log)
        }


def call(
    path: str,
    notifier: Notifier,
    alert: Alert,
    context: "Context",
    log: Log,
    *,
    seconds: float = LONGEST_SECONDS,
) -> bool:
    """Hand an alert over. A notifier that fails, or that does not come back, is logged and hurts nothing else.

    A notifier of Airflow gets the task's context with `alert` in it, so that its templates may say
    `{{ alert.sentence }}`. So does an ordinary callback of Airflow, which is a function of `context`. It knows of
    failures only, so it is not called with the end of one. Any other callable gets the alert.

    Returns:
        Whether it came back in time, so that it may be called with the next alert.
    """
    callback = _is_callback(notifier)
    if callback and alert.cleared:
        return True
    given: Any = alert
    if callback or isinstance(notifier, BaseNotifier):
        given = {**context, "alert": alert, "exception": alert.sentence}
    failures: list[BaseException] = []

    def run() -> None:
        try:
            notifier(given)
        except BaseException as error:  # noqa: BLE001 - also one that ends its thread: the batch is not to suffer
            failures.append(error)

    # A thread of its own, so that one that hangs cannot keep the task from its next try.
    thread = threading.Thread(target=run, name=f"notifier {path}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        log.warning("The notifier %s did not return within %.0f s and is left alone.", path, seconds)
        return False
    for error in failures:
        log.warning("The notifier %s failed: %s: %s. The alert stands in this log.", path, type(error).__name__, error)
    return True


def _is_callback(notifier: Notifier) -> bool:
    """Say whether it is written as Airflow's `on_failure_callback` is: a function of the context."""
    try:
        return not isinstance(notifier, BaseNotifier) and [*inspect.signature(notifier).parameters] == ["context"]
    except ValueError:  # a function written in C may have no signature
        return False
