"""Notifiers: loads what `notify` names by import path, and isolates its failures."""

import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol

from airflow.sdk import BaseNotifier, Context

from workorders.core.exceptions import ConfigurationError


class _Alert(Protocol):
    """What a notifier gets: the alert in a sentence or two, and whether the condition of an earlier one has ended."""

    @property
    def sentence(self) -> str: ...
    @property
    def cleared(self) -> bool: ...


MAX_SECONDS = 60.0
"""Longest time of one notifier for one alert."""

Notifier = Callable[[Any], object]
Log = logging.Logger | Any
"""Airflow's tasks log with structlog, whose loggers have no class in common with logging's."""


def resolve(path: str) -> Notifier:
    """Return the notifier that an import path names.

    Raises:
        ConfigurationError: it cannot be imported, or cannot be called with an alert.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(
            f"The notifier {path} cannot be imported: {type(error).__name__}: {error}; no alert reaches it. Correct "
            f"the name, or install its module where the Airflow workers run."
        ) from error
    # A class would be called to make an instance, and a coroutine would never run: both would be silent.
    if not callable(found) or isinstance(found, type) or inspect.iscoroutinefunction(found):
        raise ConfigurationError(
            f"The notifier {path} is neither a function that takes an alert nor an instance of an Airflow notifier, "
            f"but of type {type(found).__name__}; no alert reaches it. Name one of the two."
        )
    return found  # type: ignore[no-any-return]


def load_notifiers(paths: Iterable[str], log: Log) -> dict[str, Notifier]:
    """Return the notifiers that can be called, and log at every attempt which cannot."""
    found = {}
    for path in paths:
        try:
            found[path] = resolve(path)
        except ConfigurationError as error:
            log.warning("%s", error)
    return found


def notify_all(alerts: Sequence[_Alert], notifiers: dict[str, Notifier], context: Context, log: Log) -> None:
    """Log the alerts, then call the notifiers for each; one that hangs is not called again."""
    for alert in alerts:
        (log.warning if alert.cleared else log.error)("Alert: %s", alert.sentence)
    for alert in alerts:
        # Otherwise a notifier that hangs would delay the next try by a minute for each of a hundred partitions.
        notifiers = {
            path: notifier for path, notifier in notifiers.items() if notify(path, notifier, alert, context, log)
        }


def notify(path: str, notifier: Notifier, alert: _Alert, context: Context, log: Log) -> bool:
    """Call a notifier with an alert. One that fails or does not return is logged and affects nothing else.

    A notifier of Airflow gets the task's context with `alert` in it, so that its templates may contain
    `{{ alert.sentence }}`. So does an ordinary callback of Airflow, which is a function of `context`; it knows only
    failures, so it is not called when a condition ends. Any other callable gets the alert.

    Returns:
        Whether it returned in time, so that it may be called with the next alert.
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
        except BaseException as error:  # noqa: BLE001 - also one that ends its thread: the task must not fail by it
            failures.append(error)

    # In a thread, so that one that hangs cannot delay the next try of the task.
    thread = threading.Thread(target=run, name=f"notifier {path}", daemon=True)
    thread.start()
    thread.join(MAX_SECONDS)
    if thread.is_alive():
        log.warning("The notifier %s did not return within %.0f s and is abandoned.", path, MAX_SECONDS)
        return False
    for error in failures:
        log.warning("The notifier %s failed: %s: %s. The alert is in this log.", path, type(error).__name__, error)
    return True


def _is_callback(notifier: Notifier) -> bool:
    """Return whether it has the form of Airflow's `on_failure_callback`: a function of the context."""
    try:
        return not isinstance(notifier, BaseNotifier) and [*inspect.signature(notifier).parameters] == ["context"]
    except ValueError:  # a function written in C may have no signature
        return False
