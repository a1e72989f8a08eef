"""The same work and the same faults for this package and for the tools that people compare it with."""
