import csv
import json
import os
import time
from pathlib import Path

import pytest

from support.runs import finish_all
from support.work_orders import accepted, accepted_range, rejected
from workorders.core.bulk import export, jobs, runner
from workorders.core.bulk.export import ExportFileError
from workorders.core.bulk.jobs import Job
from workorders.core.creation.work_orders import create_for
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


def made(connection: Connection, name: str, file: Path) -> Job:
    connection.commit()
    job = jobs.create_job(
        connection, "export", Filter(trigger=name), actor="ada", reason="a test", options=export.export_options(file)
    )
    connection.commit()
    return job


def test_an_export_has_everything_of_a_work_order_in_the_order_of_creation(
    connection: Connection, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    create_for(connection, trigger, [accepted("s", 0, b'{"n":0.1000000000000000000000000000001}')])
    finish_all(connection, name, "failed")
    create_for(connection, trigger, [rejected("s", 1, b"\xff\n=1"), *accepted_range("s", 2, 7)])
    lines, table = tmp_path / "all.jsonl", tmp_path / "all.csv"
    for file in (lines, table):
        assert runner.run_job(connection, made(connection, name, file).id, step=3, file=file).done == 7
    text = lines.read_text(encoding="utf-8").splitlines()
    assert '"n": 0.1000000000000000000000000000001' in text[0]
    objects = [json.loads(line) for line in text]
    assert list(objects[0]) == list(export.COLUMNS)
    assert [found["position"] for found in objects] == list(range(7))
    assert (objects[0]["state"], objects[0]["attempts"]) == ("failed", 1)
    assert (objects[1]["reason"], objects[1]["raw_base64"], objects[1]["body"]) == ("not-json", "/wo9MQ==", None)
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == [found["id"] for found in objects]
    assert json.loads(rows[2]["body"]) == objects[2]["body"]
    assert (rows[1]["reason"], rows[1]["body"]) == ("not-json", "")


def test_a_file_is_not_there_before_it_is_whole(
    connection: Connection, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 7))
    file = tmp_path / "all.jsonl"
    seen: list[bool] = []
    runner.run_job(
        connection, made(connection, name, file).id, step=3, progress=lambda _: seen.append(file.exists()), file=file
    )
    assert seen == [False, False, False]
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]


def test_an_export_that_fails_has_the_error_in_its_row_and_leaves_no_file(
    connection: Connection, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 7))
    folder = tmp_path / "gone"
    folder.mkdir()
    job = made(connection, name, folder / "all.jsonl")
    folder.rmdir()
    with pytest.raises(ExportFileError, match="No such file or directory"):
        runner.run_job(connection, job.id, file=folder / "all.jsonl")
    failed = jobs.get_job(connection, job.id)
    assert (failed.state, failed.done) == ("failed", 0)
    assert failed.error == (
        f"The export could not be written to {folder / 'all.jsonl'} (No such file or directory); "
        f"no file of that name was created."
    )
    connection.rollback()
    folder.mkdir()
    assert runner.run_job(connection, job.id, file=folder / "all.jsonl").state == "finished"


def test_an_export_that_was_interrupted_begins_again(
    connection: Connection, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 7))
    file = tmp_path / "all.jsonl"
    job = made(connection, name, file)

    def stop(_: Job) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run_job(connection, job.id, step=3, progress=stop, file=file)
    assert list(tmp_path.iterdir()) == []
    assert runner.run_job(connection, job.id, step=3, file=file).done == 7
    assert len(file.read_text(encoding="utf-8").splitlines()) == 7


def test_an_export_is_for_its_owner_alone_while_it_is_written_and_when_it_is_whole(
    connection: Connection, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 7))
    file = tmp_path / "all.jsonl"
    seen: list[int] = []

    def look(_: Job) -> None:
        (part,) = tmp_path.iterdir()
        seen.append(part.stat().st_mode & 0o777)

    before = os.umask(0)
    try:
        runner.run_job(connection, made(connection, name, file).id, step=3, progress=look, file=file)
    finally:
        os.umask(before)
    assert {*seen, file.stat().st_mode & 0o777} == {0o600}


def test_what_a_killed_worker_left_of_a_file_is_removed_and_what_another_one_is_writing_is_not(
    connection: Connection, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 2))
    file = tmp_path / "all.jsonl"
    left, other_file, written = (
        tmp_path / part for part in (".all.jsonl.1.part", ".b.jsonl.1.part", ".all.jsonl.2.part")
    )
    for path in (left, other_file, written):
        path.touch()
    long_ago = time.time() - jobs.HEARTBEAT_TIMEOUT.total_seconds() - 1
    for path in (left, other_file):
        os.utime(path, (long_ago, long_ago))
    runner.run_job(connection, made(connection, name, file).id, file=file)
    assert sorted(tmp_path.iterdir()) == sorted([file, other_file, written])


def test_the_jobs_row_does_not_choose_where_an_export_is_written(
    connection: Connection, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 2))
    file, elsewhere = tmp_path / "all.jsonl", tmp_path / "elsewhere.jsonl"
    job = made(connection, name, file)
    connection.execute(
        "UPDATE workorders.bulk_jobs SET options = options || jsonb_build_object('file', %s::text) WHERE id = %s",
        (str(elsewhere), job.id),
    )
    connection.commit()
    for named in (file, None):
        with pytest.raises(ExportFileError, match=f"^Job {job.id} is an export to {elsewhere}, which is not the file"):
            runner.run_job(connection, job.id, file=named)
        connection.rollback()
    assert list(tmp_path.iterdir()) == []
    assert runner.run_job(connection, job.id, file=elsewhere).state == "finished"
