"""The faults; importing this package puts them all on the list."""

from faults.cases import broker, chance, clocks, driver, planner, postgres, topics, worker
from faults.catalogue import FAULTS

__all__ = ["FAULTS", "broker", "chance", "clocks", "driver", "planner", "postgres", "topics", "worker"]
