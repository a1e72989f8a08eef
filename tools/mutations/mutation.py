"""A deliberate break of the source: small replacements of text, and the tests that must fail for it."""

from dataclasses import dataclass
from pathlib import Path

CONTRACTS = "make contracts"
"""In place of a test: the contracts on imports must be broken."""


class StaleMutationError(Exception):
    """The text that a mutation replaces is not in its file exactly once: the code has moved on."""


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement in one file."""

    file: str
    """Path within the package."""
    old: str
    """Text that is in the file exactly once."""
    new: str

    def apply(self, package: Path) -> None:
        """Replace the text in a copy of the package.

        Raises:
            StaleMutationError: the text is not there exactly once.
        """
        path = package / self.file
        text = path.read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise StaleMutationError(f"{self.file} holds this {count} times, not once: {self.old}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A break of one promise."""

    name: str
    promise: int
    """Number of the promise that it breaks, in the order of the page on guarantees; 0 for the page on security."""
    changes: tuple[Change, ...]
    tests: tuple[str, ...]
    """Each must fail: path of a test's file within `tests`, and its name, as `unit/core/test_ids.py::test_it`."""
