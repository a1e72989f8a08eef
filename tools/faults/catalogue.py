"""The list of all faults: each is one function with a name, added by a decorator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.scene import Scene

Injection = Callable[["Scene"], None]


class NotPossibleError(Exception):
    """This machine cannot have the fault; the text contains the reason."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How attempts are made, unless a fault itself says so."""

    on_server: bool = False
    """Whether on a Spark Connect server, and not by a submitted application."""
    grown: bool = False
    """Whether a fault meets a worker in a round by which the batch has grown, and not in its first one."""

    def __str__(self) -> str:
        return "-".join(["server"] * self.on_server + ["grown"] * self.grown)


DEFAULT = Mode()


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    inject: Injection
    short: bool
    """Whether `make test-all` has it, too."""

    @property
    def slug(self) -> str:
        """The name as a part of topics' and files' names."""
        return self.inject.__name__.replace("_", "-")


FAULTS: dict[str, Fault] = {}


def fault(name: str, *, short: bool = False) -> Callable[[Injection], Injection]:
    """Add a function to the list: it injects the fault into a scene, proves that it did, and lifts it again."""

    def add(inject: Injection) -> Injection:
        assert name not in FAULTS, name
        FAULTS[name] = Fault(name, inject, short)
        return inject

    return add
