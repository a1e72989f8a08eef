"""Components of Airflow that end by themselves."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from local_stack.airflow import AirflowComponent, restart_ended


@dataclass
class Process:
    running: bool = True
    exit_code: int | None = 1
    log: Path = Path("scheduler.log")
    starts: list[int] = field(default_factory=list)

    def start(self) -> None:
        self.starts.append(1)


@dataclass
class Component:
    name: str
    process: Process


def test_a_component_that_ended_is_started_again_five_times_and_each_is_told() -> None:
    ended, alive = Component("scheduler", Process(running=False)), Component("triggerer", Process())
    components = cast("list[AirflowComponent]", [ended, alive])
    restarts: Counter[str] = Counter()
    lines: list[Any] = [list(restart_ended(components, restarts)) for _ in range(8)]
    assert len(ended.process.starts) == 5
    assert alive.process.starts == []
    assert lines[0] == [
        "Airflow's scheduler ended with exit code 1 and was started again (1 of at most 5 times)",
    ]
    assert lines[5] == [
        "Airflow's scheduler ended with exit code 1 and stays ended, after 5 restarts; its log is scheduler.log",
    ]
    assert lines[6:] == [[], []]
