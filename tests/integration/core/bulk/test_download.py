import csv
import io
import json
from collections.abc import Callable

import pytest
from psycopg.pq import TransactionStatus

from support.work_orders import accepted, accepted_range
from workorders.core.bulk import download, jobs, runner
from workorders.core.bulk.export import COLUMNS, ExportFileError
from workorders.core.bulk.jobs import Job, JobBusyError, JobEndedError
from workorders.core.creation.work_orders import create_for
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

Make = Callable[[str], Job]


@pytest.fixture
def make(connection: Connection, trigger: Trigger) -> Make:
    """Returns a function that makes an export to a browser of all work orders of the trigger."""

    def make(format_: str) -> Job:
        connection.commit()
        wanted = Filter(trigger=trigger.name)
        job = jobs.create_job(connection, "export", wanted, actor="ada", reason="a test", options={"format": format_})
        connection.commit()
        return job

    return make


def downloaded(connection: Connection, job: Job) -> str:
    return b"".join(download.parts(connection, job.id)).decode()


def test_a_download_has_every_line_once(
    connection: Connection, trigger: Trigger, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "STEP", 3)
    create_for(
        connection, trigger, [*accepted_range("s", 0, 7), accepted("s", 7, json.dumps({"ä": "ü" * 70_000}).encode())]
    )
    lines = downloaded(connection, make("jsonl")).splitlines()
    assert [json.loads(line)["position"] for line in lines] == list(range(8))
    rows = list(csv.DictReader(io.StringIO(downloaded(connection, make("csv")), newline="")))
    assert [row["position"] for row in rows] == [str(position) for position in range(8)]


def test_a_download_of_nothing_is_the_head_of_its_format(connection: Connection, make: Make) -> None:
    assert downloaded(connection, make("jsonl")) == ""
    assert downloaded(connection, make("csv")).split() == [",".join(COLUMNS)]


def test_no_transaction_is_open_while_a_part_is_taken_and_the_row_has_the_progress(
    connection: Connection, trigger: Trigger, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "STEP", 3)
    create_for(connection, trigger, accepted_range("s", 0, 7))
    job = make("jsonl")
    done: list[int] = []
    for _ in download.parts(connection, job.id):
        assert connection.info.transaction_status == TransactionStatus.IDLE
        done.append(jobs.get_job(connection, job.id).done)
        connection.commit()
    assert done == [3, 6, 7]
    assert jobs.get_job(connection, job.id).state == "finished"


def test_a_download_that_is_ended_early_waits_and_begins_again(
    connection: Connection, trigger: Trigger, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "STEP", 3)
    create_for(connection, trigger, accepted_range("s", 0, 7))
    job = make("jsonl")
    parts = download.parts(connection, job.id)
    next(parts)
    with pytest.raises(JobBusyError):
        next(download.parts(connection, job.id))
    connection.rollback()
    parts.close()
    left = jobs.get_job(connection, job.id)
    assert (left.state, left.done) == ("waiting", 3)
    assert left.error == "The download was ended early. The file is not complete: delete it, and download it again."
    connection.commit()
    assert job.id not in runner.find_orphaned(connection), "only a person takes the file"
    connection.commit()
    assert len(downloaded(connection, job).splitlines()) == 7
    with pytest.raises(JobEndedError, match="is finished"):
        downloaded(connection, job)


def test_a_download_is_not_written_into_a_file(connection: Connection, make: Make) -> None:
    with pytest.raises(ExportFileError, match="is an export to a browser; nothing was exported"):
        runner.run_job(connection, make("jsonl").id)
