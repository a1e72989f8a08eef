"""Arrays as text are the ones that the driver would make."""

from uuid import uuid4

from workorders.core.postgres.arrays import integers, uuids


def test_uuids_are_spelled_as_postgres_reads_them() -> None:
    one, other = uuid4(), uuid4()
    assert uuids([one.bytes, None, other.bytes]) == f"{{{one.hex},NULL,{other.hex}}}"


def test_numbers_are_spelled_as_postgres_reads_them() -> None:
    assert integers([1, None, -2]) == "{1,NULL,-2}"
    assert integers([]) == "{}"
