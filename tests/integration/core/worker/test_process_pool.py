"""Real processes: what one run does to its own hurts no other run."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.eventually import eventually
from support.jobs import job, outcomes, specification
from workorders.core.worker.exceptions import CallableUnavailableError
from workorders.core.worker.model import Job, Outcome, Specification
from workorders.core.worker.process_pool import Pool
from workorders.core.worker.secret_masking import Mask, secrets_of

pytestmark = pytest.mark.integration

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Warm processes that most tests share, one run after the other."""
    with Pool(specification(carry_headers=("tenant",), log_bytes=2_000, output_bytes=5_000)) as pool:
        yield pool


def test_the_output_of_a_run_is_what_its_function_returned(pool: Pool) -> None:
    body = {"do": "echo", "number": 2**80, "text": "ä😀"}
    (outcome,) = outcomes(pool, [job(body)])
    assert (outcome.state, outcome.error) == ("success", None)
    assert json.loads(outcome.output or b"") == body
    assert outcome.started_at <= outcome.finished_at


def test_an_exception_fails_its_run_with_type_text_and_traceback(pool: Pool) -> None:
    (outcome,) = outcomes(pool, [job({"do": "fail", "word": "no bed"})])
    assert (outcome.state, outcome.error_type, outcome.error) == ("failed", "ValueError", "no bed")
    assert outcome.log.endswith("ValueError: no bed\n")
    assert "_fail" in outcome.log
    assert "child.py" not in outcome.log


@pytest.mark.parametrize(
    ("do", "state", "error_type"),
    [
        ("exit", "failed", "SystemExit"),
        ("no JSON", "failed", "TypeError"),
        ("much", "failed", "OutputTooLargeError"),
        ("exit process", "crashed", "ProcessExit"),
        ("fault", "crashed", "SIGSEGV"),
        ("kill", "crashed", "SIGKILL"),
    ],
)
def test_whatever_a_run_does_the_ones_beside_it_succeed_once(
    pool: Pool, tmp_path: Path, do: str, state: str, error_type: str
) -> None:
    good = [job({"do": "echo", "n": number}) for number in range(20)]
    found = outcomes(pool, [*good[:10], job({"do": do}), *good[10:]])
    bad = found.pop(10)
    assert (bad.state, bad.error_type) == (state, error_type)
    assert [outcome.state for outcome in found] == ["success"] * 20


def test_the_runs_of_a_process_that_ends_are_begun_once_each(tmp_path: Path) -> None:
    file = tmp_path / "noted"
    jobs = [job({"do": "note", "file": str(file), "word": str(number)}) for number in range(200)]
    with Pool(specification("note")) as pool:
        pool.submit(jobs)
        done = 0
        killed = False
        while pool.unfinished:
            done += len(pool.poll(10))
            if not killed and done > 20 and pool.at_work():
                os.kill(pool.pids[0], 9)
                killed = True
    words = file.read_text().split()
    assert len(set(words)) == len(words) >= 199


def test_a_run_over_its_time_is_killed_and_the_one_behind_it_succeeds() -> None:
    with Pool(specification(timeout_seconds=5)) as pool:
        begun = time.monotonic()
        slow, quick = outcomes(pool, [job({"do": "sleep"}), job({"do": "echo"})])
    assert time.monotonic() - begun < 30
    assert (slow.state, slow.error_type, slow.log) == ("killed", "TimeoutError", "going to sleep\n")
    assert "timeout_seconds (5)" in (slow.error or "")
    assert quick.state == "success"


def test_programs_that_a_killed_run_has_started_end_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with Pool(specification(timeout_seconds=5)) as pool:
        outcomes(pool, [job({"do": "leave a program", "file": str(file)})])
    assert eventually(lambda: not _runs(int(file.read_text())), seconds=20, what="the end of the program")


def test_a_process_holds_one_job_at_a_time_and_what_it_has_not_begun_goes_to_another(tmp_path: Path) -> None:
    note = {"do": "note", "file": str(tmp_path / "noted")}
    slow, others = job({**note, "word": "slow", "seconds": 2}), [job({**note, "word": str(n)}) for n in range(5)]
    with Pool(specification("note", processes=2)) as pool:
        outcomes(pool, [job({**note, "word": "first"}) for _ in range(50)])
        ended = [outcome.job for outcome in _in_order_of_end(pool, [slow, *others])]
    assert ended == [*others, slow]


def test_after_a_failure_the_lane_is_held_and_other_lanes_go_on(tmp_path: Path) -> None:
    failing = job({"do": "fail"}, lane=1)
    behind = [job({"do": "echo", "n": number}, lane=1) for number in range(2)]
    others = [job({"do": "echo"}, lane=2), job({"do": "echo"})]
    with Pool(specification()) as pool:
        pool.submit([failing, *behind, *others])
        ended: list[str] = []
        while len(ended) < 3:
            ended += [outcome.job.run_id for outcome in pool.poll(30)]
        assert set(ended) == {one.run_id for one in (failing, *others)}
        assert pool.poll(0.2) == []
        pool.drop({behind[0].run_id})
        pool.resume(1)
        assert [one.job for one in pool.poll(30)] == behind[1:]


def test_runs_share_a_warm_process_until_it_ends() -> None:
    with Pool(specification("process_id")) as pool:
        pids = {outcome.output for outcome in outcomes(pool, [job({}) for _ in range(50)])}
    assert len(pids) == 1


def test_long_runs_work_side_by_side_also_behind_short_ones(tmp_path: Path) -> None:
    """Each long one waits until all four have begun."""
    with Pool(specification(processes=4)) as pool:
        outcomes(pool, [job({"do": "echo"}) for _ in range(50)])
        ends = outcomes(pool, [job({"do": "meet", "folder": str(tmp_path), "count": 4}) for _ in range(4)])
        assert [end.state for end in ends] == ["success"] * 4
        assert len(pool.pids) == 4


def test_several_processes_work_side_by_side_and_a_lane_keeps_its_order(tmp_path: Path) -> None:
    file = tmp_path / "noted"
    jobs = [
        job({"file": str(file), "word": f"{lane}:{number}", "seconds": 0.02 if number % 3 else 0}, lane=lane)
        for number in range(8)
        for lane in range(3)
    ]
    with Pool(specification("note", processes=3)) as pool:
        outcomes(pool, jobs)
    words = file.read_text().split()
    for lane in range(3):
        assert [word for word in words if word.startswith(f"{lane}:")] == [f"{lane}:{n}" for n in range(8)]


def test_a_log_holds_what_the_function_its_libraries_and_its_programs_wrote_with_run_and_trace(pool: Pool) -> None:
    request = {"headers": [["traceparent", TRACEPARENT]]}
    one = job({"do": "tell", "word": "here"}, request=request)
    told, silent = outcomes(pool, [one, job({"do": "echo"})])
    lines = told.log.splitlines()
    assert {"printed", "by a program"} <= set(lines)
    for text in ("logged here", "by a library"):
        (line,) = [line for line in lines if line.endswith(text)]
        assert f"run={one.run_id} traceparent=00-{TRACE}-" in line
        assert "b7ad6b7169203331" not in line
    assert silent.log == ""


def test_of_a_long_log_the_beginning_and_the_end_are_kept(pool: Pool) -> None:
    (outcome,) = outcomes(pool, [job({"do": "chatter"})])
    assert outcome.truncated
    assert outcome.log.startswith("first\n")
    assert outcome.log.endswith("last\n")
    assert len(outcome.log.encode()) <= 2_000


def test_known_secrets_are_in_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "correct horse")
    mask = Mask(secrets_of(os.environ))
    with Pool(specification(), mask=mask, longest_secret=mask.longest) as pool:
        (outcome,) = outcomes(pool, [job({"do": "secret"})])
    assert outcome.log == "password=***\n"


def test_known_secrets_are_in_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "correct horse")
    mask = Mask(secrets_of(os.environ))
    with Pool(specification(), mask=mask, longest_secret=mask.longest) as pool:
        (outcome,) = outcomes(pool, [job({"do": "echo", "dsn": "postgresql://nurse:correct%20horse@db/ward"})])
    assert json.loads(outcome.output or b"") == {"do": "echo", "dsn": "postgresql://nurse:***@db/ward"}


def test_a_context_carries_the_named_headers_and_continues_the_trace(pool: Pool) -> None:
    request = {"headers": [["Tenant", "north"], ["tenant", "south"], ["traceparent", TRACEPARENT], ["other", "x"]]}
    (outcome,) = outcomes(pool, [job({"do": "headers"}, request=request)])
    headers, traceparent = json.loads(outcome.output or b"")
    assert headers == {"tenant": "north"}
    assert traceparent.startswith(f"00-{TRACE}-")
    assert traceparent != TRACEPARENT


def test_published_messages_come_back_with_a_success_and_never_with_a_failure(pool: Pool) -> None:
    request = {"headers": [["tenant", "north"], ["traceparent", TRACEPARENT]]}
    sent, failed = outcomes(pool, [job({"do": "publish"}, request=request), job({"do": "publish", "fail": True})])
    first, second = sent.messages
    assert (first.to, first.key, first.value) == ("results", b"k", b'{"n":1}')
    headers = dict(first.headers)
    assert headers["own"] == b"\xff"
    assert headers["tenant"] == b"north"
    assert (headers["traceparent"] or b"").startswith(f"00-{TRACE}-".encode())
    assert second.value is None
    assert failed.messages == ()


def test_a_function_that_cannot_be_imported_begins_no_run() -> None:
    with Pool(Specification(callable="support.run_functions:missing")) as pool:
        pool_jobs = [job({})]
        pool.submit(pool_jobs)
        with pytest.raises(CallableUnavailableError, match="missing"):
            pool.poll(30)
        assert pool.stop() == ([], pool_jobs)


def test_jobs_that_were_not_begun_come_back_when_work_is_stopped() -> None:
    jobs = [job({"do": "sleep"}), job({"do": "echo"}), job({"do": "echo"})]
    with Pool(specification()) as pool:
        pool.submit(jobs)
        assert eventually(lambda: not pool.poll(0.1) and pool.at_work() == jobs[:1], seconds=30, what="the first run")
        assert pool.stop() == ([], jobs[1:])
        assert pool.unfinished == 0


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def _in_order_of_end(pool: Pool, jobs: list[Job]) -> list[Outcome]:
    """Run the jobs, and return their outcomes as they come."""
    pool.submit(jobs)
    ended: list[Outcome] = []
    while pool.unfinished:
        ended += pool.poll(10)
    return ended


def test_a_process_that_is_still_starting_has_been_given_no_job(tmp_path: Path) -> None:
    given = job({"do": "note", "file": str(tmp_path / "noted"), "word": "begun"})
    with Pool(specification()) as pool:
        pool.submit([given])
        assert pool.poll(0) == []
        assert pool.give_back() == [given]
        assert pool.unfinished == 0
    assert not (tmp_path / "noted").exists()
