"""What a tool has to be able to do to take part: topic in, table out."""

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from faults.breakpoints import Breakpoint
from local_stack.stack import CHECKOUT

if TYPE_CHECKING:
    from compare.case import Case

_ENVIRONMENTS: Final = CHECKOUT / "build" / "compare"
HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Command:
    """How a process of the tool is started."""

    words: Sequence[str | Path]
    environment: dict[str, str] = field(default_factory=dict)


class Peer(ABC):
    """One tool in one configuration."""

    slug: str
    name: str
    settings: str
    """The settings that matter and where they are documented, in Markdown."""
    only: ClassVar[frozenset[str]] = frozenset()
    """The faults that it meets; all if empty."""
    in_java: ClassVar[bool] = False
    """Whether a JVM does the work, not Python."""
    processes: ClassVar[int] = 1
    """Processes of one installation."""
    without_group: str = ""
    """Why there is no consumer group to reset; empty if there is one."""
    patience: float = 40.0
    """Seconds without a new row after which the tool does not continue by itself."""

    @abstractmethod
    def version(self) -> str:
        """Return the version of what is installed."""

    @abstractmethod
    def parts(self) -> int:
        """Return how many distributions or jars an installation of it has, without Python and Java."""

    def prepare(self, case: "Case") -> None:  # noqa: B027 - most tools need nothing
        """Create what the tool needs apart from its topic and its table."""

    @abstractmethod
    def command(self, case: "Case", number: int) -> Command:
        """Return the command of a process; those of a second installation come after those of the first."""

    def at_commit(self, case: "Case", *, lose_answer: bool) -> Breakpoint:
        """Return the point at which a transaction with rows is committed."""
        return Breakpoint("", b"COMMIT", case.insert, lose_answer)

    @abstractmethod
    def kept(self, case: "Case") -> int:
        """Return how many messages it has kept apart, for a person to look at."""

    def group_id(self, case: "Case") -> str:
        """Return the name of its consumer group."""
        return f"compare-{case.topic}"

    def servers(self, case: "Case") -> list[int]:
        """Return the ids of further processes that belong to the tool alone."""
        return []

    def is_busy(self, case: "Case") -> bool:
        """Return whether it has work left that can still change rows."""
        return False

    def halted(self, case: "Case") -> str:
        """Return where the tool itself reports that it does not continue; empty if it reports nothing."""
        return ""

    def remedy(self, case: "Case") -> str:
        """Do what the documentation tells an operator to do now; return it in words, or nothing."""
        return ""

    def replay(self, case: "Case", offsets: Mapping[int, int]) -> str:
        """Do what the documentation tells an operator to do to read from these offsets again; return it in words."""
        case.stop()
        case.reset_group(offsets)
        case.again()
        return "a reset of the group"


def environment(name: str, lock: Path, *, build: Sequence[str] = ()) -> Path:
    """Return the interpreter of a tool's environment, with the versions that `requirements.lock` has of all others.

    `build` names packages that must be there before the others are built.
    """
    uv, folder = str(Path(sys.executable).with_name("uv")), _ENVIRONMENTS / name
    python = folder / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, folder], check=True)
    install = [uv, "pip", "install", "--quiet", "--require-hashes", "--python", str(python)]
    constraints = ["--constraints", str(CHECKOUT / "requirements.lock")]
    for line in build:
        subprocess.run([*install, "--requirement", "-", *constraints], input=line, text=True, check=True)
    alone = ["--no-build-isolation"] if build else []
    subprocess.run([*install, *alone, "--requirement", str(lock), *constraints], check=True)
    return python


def required(requirement: str) -> frozenset[str]:
    """Return the names of what a requirement brings, from what is installed here."""
    found, waiting = set[tuple[str, frozenset[str]]](), [requirement]
    while waiting:
        one = Requirement(waiting.pop())
        key = canonicalize_name(one.name), frozenset(one.extras)
        if key in found:
            continue
        found.add(key)
        for line in requires(one.name) or []:
            marker = Requirement(line).marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in one.extras or {""}):
                waiting.append(line)
    return frozenset(name for name, _ in found)


def distributions(python: Path) -> int:
    """Return how many distributions a tool's environment has."""
    return len([*python.parents[1].glob("lib/python*/site-packages/*.dist-info")])


def locked(lock: Path, package: str) -> str:
    """Return the version of a package in a lock file."""
    lines = (line.split() for line in lock.read_text(encoding="utf-8").splitlines())
    return next(words[0].split("==")[1] for words in lines if words and words[0].startswith(f"{package}=="))
