"""A task of a trigger's DAGs, as a process that can be waited for and looked at."""

import json
import re
from typing import Any

import psutil

from faults.processes import is_alive
from faults.role import ANSWER
from local_stack.processes import ManagedProcess
from local_stack.waiting import wait_until

SECONDS = 300.0


class Task:
    """One process, already started."""

    def __init__(self, process: ManagedProcess) -> None:
        self._managed = process
        self.process = psutil.Process(process.pid)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._managed.running

    def tree(self) -> list[psutil.Process]:
        """Return the process with all that it has started, as far as they have not ended."""
        try:
            return [one for one in (self.process, *self.process.children(recursive=True)) if is_alive(one)]
        except psutil.NoSuchProcess:
            return []

    def wait(self, seconds: float = SECONDS) -> int:
        """Wait for the end and return the exit code; minus the signal's number if a signal ended it.

        Raises:
            AssertionError: it did not end in time.
        """
        assert wait_until(lambda: not self._managed.running, seconds=seconds), (
            f"{self._managed.name} did not end within {seconds:g} s:\n{self.output()[-3000:]}"
        )
        code = self._managed.exit_code
        assert code is not None
        return code

    def succeed(self) -> "Task":
        """Wait for a good end.

        Raises:
            AssertionError: it failed.
        """
        code = self.wait()
        assert code == 0, f"{self._managed.name} ended with {code}:\n{self.output()[-3000:]}"
        return self

    def fail(self, sentence: str = "") -> str:
        """Wait for an end with an error, and return what was printed, in which a sentence is looked for.

        Raises:
            AssertionError: it ended well, or did not print the sentence.
        """
        code, output = self.wait(), self.output()
        assert code != 0, f"{self._managed.name} ended well:\n{output[-3000:]}"
        assert re.search(sentence, output), f"{self._managed.name} did not print {sentence!r}:\n{output[-3000:]}"
        return output

    def output(self) -> str:
        """Return what it has printed."""
        return self._managed.log.read_text(encoding="utf-8", errors="replace")

    def answer(self) -> dict[str, Any]:
        """Wait for a good end and return the answer."""
        lines = self.succeed().output().splitlines()
        answer: dict[str, Any] = json.loads(next(line for line in lines if line.startswith(ANSWER))[len(ANSWER) :])
        return answer

    def end(self) -> None:
        """Kill it with its descendants, if it still runs."""
        if self._managed.running:
            self._managed.kill()
