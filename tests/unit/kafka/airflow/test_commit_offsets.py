"""How long the commit of offsets waits for a group's coordinator."""

import time
from collections.abc import Iterator

import pytest

from support.definitions import define
from support.tries import a_try
from workorders.airflow.retries import unlimited_retries
from workorders.kafka.airflow.commit_offsets import COORDINATOR_SECONDS, CommitOffsetsOperator
from workorders.kafka.exceptions import CoordinatorMovingError, GroupCommitError, KafkaUnavailableError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only waits move: each wait, in seconds."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(waited))
    return waited


def commit(monkeypatch: pytest.MonkeyPatch, answers: Iterator[Exception | None]) -> None:
    task = CommitOffsetsOperator(task_id="commit", definition=define("orders"), batch_id=7, **unlimited_retries())

    def answer() -> None:
        error = next(answers)
        if error is not None:
            raise error

    monkeypatch.setattr(task, "_commit", answer)
    task.execute(a_try())


def moving() -> CoordinatorMovingError:
    return CoordinatorMovingError("Kafka is electing a coordinator of the group and cannot answer yet.")


def test_a_coordinator_that_comes_in_time_fails_nothing(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    commit(monkeypatch, iter([moving(), moving(), None]))
    assert len(clock) == 2


def test_a_coordinator_that_does_not_come_fails_the_task_within_a_bound(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    with pytest.raises(GroupCommitError, match=r"electing a coordinator .* were not committed; .* Next try in 1 s\.$"):
        commit(monkeypatch, iter(moving, None))
    assert COORDINATOR_SECONDS <= sum(clock) < 2 * COORDINATOR_SECONDS


def test_a_broker_that_is_away_is_not_waited_for_here(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    with pytest.raises(GroupCommitError):
        commit(monkeypatch, iter([KafkaUnavailableError("Kafka did not answer."), None]))
    assert clock == []
