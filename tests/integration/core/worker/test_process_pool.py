"""Real processes: what one run does to its own hurts no other run."""

import fcntl
import json
import os
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from support.alive import is_alive
from support.claimed_runs import calling, results, run_of
from support.eventually import eventually
from support.run_functions import _LEFT
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.worker.child_handle import ChildProcess
from workorders.core.worker.exceptions import CallableUnavailableError
from workorders.core.worker.ipc import TOKEN
from workorders.core.worker.process_pool import ProcessPool
from workorders.core.worker.run_results import Mask, secrets_of

pytestmark = pytest.mark.integration

SECRET = "hunter2-correct-horse-battery"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    """Warm processes that most tests share, one run after the other."""
    with ProcessPool(calling(carry_headers=("tenant",), max_log_bytes=2_000, max_output_bytes=5_000)) as pool:
        yield pool


def test_the_output_of_a_run_is_what_its_function_returned(pool: ProcessPool) -> None:
    body = {"do": "echo", "number": 2**80, "text": "ä😀"}
    (result,) = results(pool, [run_of(body)])
    assert (result.state, result.error) == ("success", None)
    assert json.loads(result.output or b"") == body
    assert result.started_at
    assert result.finished_at
    assert result.started_at <= result.finished_at


def test_an_exception_fails_its_run_with_type_text_and_traceback(pool: ProcessPool) -> None:
    (result,) = results(pool, [run_of({"do": "fail", "word": "no bed"})])
    assert (result.state, result.error_type, result.error) == ("failed", "ValueError", "no bed")
    assert result.log.endswith("ValueError: no bed\n")
    assert "_fail" in result.log
    assert "child.py" not in result.log


@pytest.mark.parametrize(
    ("do", "state", "error_type"),
    [
        ("exit", "failed", "SystemExit"),
        ("no JSON", "failed", "InvalidValueError"),
        ("much", "failed", "OutputTooLargeError"),
        ("exit process", "crashed", "ProcessExit"),
        ("fault", "crashed", "SIGSEGV"),
        ("kill", "crashed", "SIGKILL"),
    ],
)
def test_whatever_a_run_does_the_others_succeed_once(
    pool: ProcessPool, tmp_path: Path, do: str, state: str, error_type: str
) -> None:
    good = [run_of({"do": "echo", "n": number}) for number in range(20)]
    found = results(pool, [*good[:10], run_of({"do": do}), *good[10:]])
    bad = found.pop(10)
    assert (bad.state, bad.error_type) == (state, error_type)
    assert [result.state for result in found] == ["success"] * 20


def test_the_runs_of_a_process_that_ends_are_begun_once_each(tmp_path: Path) -> None:
    file = tmp_path / "noted"
    runs = [run_of({"do": "note", "file": str(file), "word": str(number)}) for number in range(200)]
    with ProcessPool(calling("note")) as pool:
        pool.unsent.put(runs)
        done = 0
        killed = False
        while pool.unfinished:
            done += len(pool.poll(10))
            if not killed and done > 20 and _running(pool):
                os.kill(_pids(pool)[0], 9)
                killed = True
    words = file.read_text().split()
    assert len(set(words)) == len(words) >= 199


def test_a_run_over_its_time_is_killed_and_the_one_behind_it_succeeds() -> None:
    with ProcessPool(calling(timeout=5)) as pool:
        begun = time.monotonic()
        slow, quick = results(pool, [run_of({"do": "sleep"}), run_of({"do": "echo"})])
    assert time.monotonic() - begun < 55
    assert (slow.state, slow.error_type, slow.log) == ("killed", "TimeoutError", "going to sleep\n")
    assert "timeout (5 s)" in (slow.error or "")
    assert quick.state == "success"


def test_a_large_result_that_is_sent_in_time_counts_although_its_parent_reads_it_late() -> None:
    with ProcessPool(calling(timeout=8, max_output_bytes=8_000_000)) as pool:
        pool.unsent.put([run_of({"do": "echo late", "seconds": 1, "text": "x" * 4_000_000})])
        assert eventually(lambda: not pool.poll(0.01) and _running(pool), seconds=30, what="the start of the run")
        time.sleep(9)
        states = [result.state for result in pool.poll(10)]
    assert states == ["success"]


def test_programs_that_a_run_has_started_end_with_it_if_it_ends_by_force(tmp_path: Path) -> None:
    """In its session or another one, when it is killed because its time is over and when it crashes."""
    cases = [(tmp_path / f"{apart}-{crash}", apart, crash) for apart in (False, True) for crash in (False, True)]
    with ProcessPool(calling(timeout=5, processes=len(cases))) as pool:
        fields = [{"file": str(file), "apart": apart, "crash": crash} for file, apart, crash in cases]
        results(pool, [run_of({"do": "leave a program", **given}) for given in fields])
    programs = [int(file.read_text()) for file, _, _ in cases]
    assert eventually(lambda: not any(map(is_alive, programs)), seconds=30, what="the end of the programs")


def test_a_process_has_one_run_at_a_time_and_what_it_has_not_begun_goes_to_another(tmp_path: Path) -> None:
    with ProcessPool(calling("note", processes=2, timeout=60)) as pool:
        # The slow one waits for the words of all others: another process may need seconds to start.
        slow, *others = _slow_and_others(pool, tmp_path / "noted", words=55)
        assert _in_order_of_end(pool, [slow, *others]) == [run.run_id for run in [*others, slow]]


def test_what_is_taken_back_from_a_slow_process_is_executed_once(tmp_path: Path) -> None:
    with ProcessPool(calling("note")) as pool:
        runs = _slow_and_others(pool, tmp_path / "noted")
        words = [json.loads(run.body or b"")["word"] for run in runs]
        found = results(pool, runs)
        # Behind everything that the process was sent.
        found += results(pool, [run_of({"file": str(tmp_path / "noted"), "word": "last"})])
    assert {result.state for result in found} == {"success"}
    assert (tmp_path / "noted").read_text().split()[-7:] == [*words, "last"]


def test_what_was_sent_ahead_stays_with_its_process_when_no_run_is_dropped(tmp_path: Path) -> None:
    with ProcessPool(calling("note")) as pool:
        pool.unsent.put(_slow_and_others(pool, tmp_path / "noted"))
        eventually(lambda: not pool.poll(0.01) and _running(pool), seconds=30, what="the slow run")
        (process,) = pool._processes
        sent = list(process.sent)
        pool.drop(set())
        assert list(process.sent) == sent


def test_a_run_that_was_taken_back_is_not_begun_with_the_token_of_a_later_one(tmp_path: Path) -> None:
    file = tmp_path / "noted"
    slow, taken, later = (
        run_of({"file": str(file), "word": word, "seconds": seconds})
        for word, seconds in (("slow", 4), ("taken", 0), ("later", 0))
    )
    process = ChildProcess(calling("note"), captured_bytes=1_000, user_database=None)
    try:
        process.send([(slow, None), (taken, None)])
        eventually(lambda: tokens_left(process) == 1, seconds=30, what="The begin of the first run")
        assert process.take_back() == [taken]
        process.send([(later, None)])
        eventually(file.exists, seconds=30, what="The end of the first run")
        eventually(lambda: len(file.read_text().split()) == 2, seconds=30, what="The end of another run")
    finally:
        process.close()
    assert file.read_text().split() == ["slow", "later"]


def tokens_left(process: ChildProcess) -> int:
    """Return how many of the runs that a process was sent it has not begun."""
    waiting = fcntl.ioctl(process._tokens_read, termios.FIONREAD, bytes(4))
    return int.from_bytes(waiting, sys.byteorder) // TOKEN.size


def _slow_and_others(pool: ProcessPool, file: Path, words: int = 0) -> list[ClaimedRun]:
    """Return a slow run and quick ones, which are sent behind it because those before them were quick."""
    results(pool, [run_of({"file": str(file), "word": "first"}) for _ in range(50)])
    quick = [run_of({"file": str(file), "word": str(n)}) for n in range(1, 6)]
    return [run_of({"file": str(file), "word": "0", "seconds": 2, "words": words}), *quick]


def test_after_a_failure_the_ordering_key_is_held_and_other_ordering_keys_continue(tmp_path: Path) -> None:
    failing = run_of({"do": "fail"}, ordering_key=1)
    behind = [run_of({"do": "echo", "n": number}, ordering_key=1) for number in range(2)]
    others = [run_of({"do": "echo"}, ordering_key=2), run_of({"do": "echo"})]
    with ProcessPool(calling()) as pool:
        pool.unsent.put([failing, *behind, *others])
        ended: list[UUID] = []
        while len(ended) < 3:
            ended += [result.run_id for result in pool.poll(30)]
        assert set(ended) == {one.run_id for one in (failing, *others)}
        assert pool.poll(0.2) == []
        pool.drop({behind[0].run_id})
        pool.resume()
        assert [one.run_id for one in pool.poll(30)] == [behind[1].run_id]


def test_runs_share_a_warm_process_until_it_ends() -> None:
    with ProcessPool(calling("process_id")) as pool:
        pids = {result.output for result in results(pool, [run_of({}) for _ in range(50)])}
    assert len(pids) == 1


def test_long_runs_work_side_by_side_also_behind_short_ones(tmp_path: Path) -> None:
    """Each long one waits until all four have begun."""
    with ProcessPool(calling(processes=4)) as pool:
        results(pool, [run_of({"do": "echo"}) for _ in range(50)])
        ends = results(pool, [run_of({"do": "meet", "folder": str(tmp_path), "count": 4}) for _ in range(4)])
        assert [end.state for end in ends] == ["success"] * 4
        assert len(_pids(pool)) == 4


def test_several_processes_work_side_by_side_and_an_ordering_key_keeps_its_order(tmp_path: Path) -> None:
    file = tmp_path / "noted"
    runs = [
        run_of(
            {"file": str(file), "word": f"{ordering_key}:{number}", "seconds": 0.02 if number % 3 else 0},
            ordering_key=ordering_key,
        )
        for number in range(8)
        for ordering_key in range(3)
    ]
    with ProcessPool(calling("note", processes=3)) as pool:
        results(pool, runs)
    words = file.read_text().split()
    for ordering_key in range(3):
        assert [word for word in words if word.startswith(f"{ordering_key}:")] == [
            f"{ordering_key}:{n}" for n in range(8)
        ]


def test_a_log_holds_what_the_function_its_libraries_and_its_programs_wrote_with_run_and_trace(
    pool: ProcessPool,
) -> None:
    request = {"headers": [["traceparent", TRACEPARENT]]}
    one = run_of({"do": "tell", "word": "here"}, request=request)
    told, silent = results(pool, [one, run_of({"do": "echo"})])
    lines = told.log.splitlines()
    assert {"printed", "by a program"} <= set(lines)
    for text in ("logged here", "by a library"):
        (line,) = [line for line in lines if line.endswith(text)]
        assert f"run={one.run_id} traceparent=00-{TRACE}-" in line
        assert "b7ad6b7169203331" not in line
    assert silent.log == ""


def test_of_a_long_log_the_beginning_and_the_end_are_kept(pool: ProcessPool) -> None:
    (result,) = results(pool, [run_of({"do": "chatter"})])
    assert result.log_truncated
    assert result.log.startswith("first\n")
    assert result.log.endswith("last\n")
    assert len(result.log.encode()) <= 2_000


def test_known_secrets_are_in_no_log_and_in_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "correct horse")
    dsn = "postgresql://nurse:correct%20horse@db/ward"
    with ProcessPool(calling(), mask=Mask(secrets_of(os.environ))) as pool:
        told, returned = results(pool, [run_of({"do": "secret"}), run_of({"do": "echo", "dsn": dsn})])
    assert told.log == "password=***\n"
    assert json.loads(returned.output or b"") == {"do": "echo", "dsn": "postgresql://nurse:***@db/ward"}


@pytest.mark.parametrize("before", [*range(1_975, 2_005), 5_000, 300_000])
def test_no_part_of_a_known_secret_is_in_an_error_or_a_log_wherever_they_are_cut(
    monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setenv("TEST_PASSWORD", SECRET)
    with ProcessPool(calling(), mask=Mask(secrets_of(os.environ))) as pool:
        runs = [run_of({"do": "fail with the secret", "before": before - shift}) for shift in range(0, 300, 20)]
        found = results(pool, runs)
    for result in found:
        for text in (result.error or "", result.log):
            assert SECRET[:3] not in text
            assert SECRET[-3:] not in text
    assert len(found[0].error or "") < 2_010


@pytest.mark.parametrize("do", ["half a character", "name half a character", "no text"])
def test_an_error_whose_text_cannot_be_encoded_fails_its_run_and_not_its_process(pool: ProcessPool, do: str) -> None:
    pids = _pids(pool)
    bad, good = results(pool, [run_of({"do": do}), run_of({"do": "echo"})])
    assert (bad.state, bad.may_retry, good.state) == ("failed", False, "success")
    assert bad.log
    assert _pids(pool) == pids or not pids


@pytest.mark.parametrize("do", ["fork and fail", "fork and return"])
def test_a_forked_copy_of_a_process_reports_nothing(do: str) -> None:
    with ProcessPool(calling(processes=2)) as pool:
        runs = [run_of({"do": do}), *(run_of({"do": "echo", "n": n}) for n in range(6))]
        found = results(pool, runs)
    assert [result.state for result in found] == ["success"] * 7
    assert found[0].output == b'"the original"'


@pytest.mark.parametrize(
    "header",
    [
        None,
        [],
        ["ready", 1],
        ["left behind"],
        ["RUN"],
        ["RUN", "success", None, [0, 1], True, ""],
        ["RUN", "success", None, [0.0, 1e300], True, ""],
        ["RUN", "lost", None, [0.0, 1.0], True, ""],
        ["RUN", "failed", ["Error"], [0.0, 1.0], True, ""],
        ["RUN", "success", None, [0.0, 1.0], "no", ""],
        ["step", "RUN", 7, 0.0, "RUN", False],
        ["step", "RUN", "name", 0.0, "no id", False],
    ],
    ids=str,
)
def test_a_process_that_sends_what_is_no_result_ends_its_own_run_only(header: list[Any] | None) -> None:
    with ProcessPool(calling(processes=2)) as pool:
        bad = run_of({"do": "send nonsense", "header": header})
        found = results(pool, [bad, *(run_of({"do": "echo"}) for _ in range(6))])
    assert [result.state for result in found] == ["crashed", *["success"] * 6]
    assert found[0].error_type == "ProcessFault"


def test_a_process_that_closes_its_descriptors_is_replaced_and_its_parent_sleeps_meanwhile() -> None:
    with ProcessPool(calling()) as pool:
        results(pool, [run_of({"do": "echo"})])
        before = time.process_time()
        closed, good = results(pool, [run_of({"do": "close all"}), run_of({"do": "echo"})])
        assert time.process_time() - before < 0.5
    assert (closed.state, closed.error_type, good.state) == ("crashed", "ProcessFault", "success")


@pytest.mark.parametrize(("count", "size"), [(11, 1), (2, 60_000), (2, 2_000_000)])
def test_a_run_that_publishes_more_than_its_workflow_allows_fails_alone_and_is_not_retried(
    count: int, size: int
) -> None:
    with ProcessPool(calling(max_published_messages=10, max_published_bytes=100_000)) as pool:
        runs = [run_of({"do": "publish much", "count": count, "size": size}), run_of({"do": "publish"})]
        much, good = results(pool, runs)
    assert (much.state, much.error_type, much.may_retry) == ("failed", "PublishLimitError", False)
    assert "max_published_" in (much.error or "")
    assert (much.messages, good.state, len(good.messages)) == ((), "success", 2)


def test_what_json_cannot_hold_fails_its_run_and_is_not_retried(pool: ProcessPool) -> None:
    found = results(pool, [run_of({"do": do}) for do in ("no JSON", "not a number", "publish no JSON")])
    assert [(result.state, result.may_retry) for result in found] == [("failed", False)] * 3
    assert "/mean is nan" in (found[1].error or "")


def test_an_async_function_is_awaited_run_by_run() -> None:
    with ProcessPool(calling("echo_later")) as pool:
        first, failed, last = results(pool, [run_of({"n": 1}), run_of({"fail": True}), run_of({"n": 2})])
    assert json.loads(first.output or b"") == {"n": 1, "left": False}
    assert (failed.state, failed.error) == ("failed", "awaited")
    assert last.state == "success"


@pytest.mark.parametrize("left", [*sorted(_LEFT)])
def test_what_a_run_leaves_behind_in_its_process_does_not_reach_the_next(
    stack: LocalStack, tmp_path: Path, left: str
) -> None:
    look, leave = {"do": "look", "word": "here"}, {"do": "leave", "left": left, "folder": str(tmp_path)}
    leave["database"] = stack.database_url
    lines: list[str] = []
    with ProcessPool(calling(), log=lines.append) as pool:
        before, leaving = results(pool, [run_of(look), run_of(leave)])
        pids = _pids(pool)
        after, last = results(pool, [run_of(look), run_of(look)])
        is_replaced = _pids(pool) != pids
    assert (leaving.state, after.output) == ("success", before.output)
    assert after.log.count("\n") == before.log.count("\n") == last.log.count("\n")
    assert is_replaced == (left in {"a closed stream", "a thread", "a thread's transaction"})
    noted = [line for line in lines if f"Run {leaving.run_id} left something behind" in line]
    assert len(noted) == (left not in {"nothing", "a daemon"})


def test_transactions_are_rolled_back_each_time_and_those_of_a_thread_are_left_to_it(stack: LocalStack) -> None:
    lines: list[str] = []
    with ProcessPool(calling(), log=lines.append) as pool:
        begin, in_thread = (
            {"do": "leave", "left": left, "database": stack.database_url}
            for left in ("a transaction", "a thread's transaction")
        )
        runs = [run_of(body) for body in (begin, begin, in_thread, {"do": "look"})]
        state = json.loads(results(pool, runs)[-1].output or b"")
        assert len(_pids(pool)) == 1
    assert state[-1] == ["INTRANS"]
    noted = [line for line in lines if "left something behind in its process, and it was restored" in line]
    assert [str(run.run_id) in line for run, line in zip(runs, noted, strict=False)] == [True, True]


def test_a_transaction_that_another_thread_may_use_is_not_rolled_back_in_half(stack: LocalStack) -> None:
    with ProcessPool(calling()) as pool:
        results(pool, [run_of({"do": "leave", "left": "a daemon"})])
        before = _pids(pool)
        begin = run_of({"do": "leave", "left": "a transaction", "database": stack.database_url})
        results(pool, [begin, run_of({"do": "look"})])
        assert _pids(pool) != before


def test_the_check_between_two_runs_costs_microseconds() -> None:
    """About 8 of CPU time, which hardly depends on what else the machine does."""
    program = (
        "import time, timeit, psycopg\n"
        "from workorders.core.worker.process_state import ProcessState\n"
        "print(min(timeit.repeat(ProcessState().restore, number=200, repeat=50, timer=time.process_time)) / 200)"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert float(answer.stdout) < 20e-6


def test_a_process_ends_with_its_parent_also_while_its_function_holds_the_interpreter(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = (
        "from support.claimed_runs import calling, run_of, results\n"
        "from workorders.core.worker.process_pool import ProcessPool\n"
        f"results(ProcessPool(calling()), [run_of({{'do': 'hold the interpreter', 'file': {str(file)!r}}})])\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    try:
        assert eventually(lambda: file.exists() and file.read_text(), seconds=60, what="the start of the run")
    finally:
        parent.kill()
        parent.wait()
    assert eventually(lambda: not is_alive(int(file.read_text())), seconds=30, what="the end of the process")


def test_a_context_carries_the_named_headers_and_continues_the_trace(pool: ProcessPool) -> None:
    request = {"headers": [["Tenant", "north"], ["tenant", "south"], ["traceparent", TRACEPARENT], ["other", "x"]]}
    (result,) = results(pool, [run_of({"do": "headers"}, request=request)])
    headers, traceparent = json.loads(result.output or b"")
    assert headers == {"tenant": "north"}
    assert traceparent.startswith(f"00-{TRACE}-")
    assert traceparent != TRACEPARENT


def test_published_messages_come_back_with_a_success_and_never_with_a_failure(pool: ProcessPool) -> None:
    request = {"headers": [["tenant", "north"], ["traceparent", TRACEPARENT]]}
    sent, failed = results(pool, [run_of({"do": "publish"}, request=request), run_of({"do": "publish", "fail": True})])
    first, second = sent.messages
    assert (first.to, first.key, first.value) == ("results", b"k", b'{"n":1}')
    headers = dict(first.headers)
    assert headers["own"] == b"\xff"
    assert headers["tenant"] == b"north"
    assert (headers["traceparent"] or b"").startswith(f"00-{TRACE}-".encode())
    assert second.value is None
    assert failed.messages == ()


def test_a_function_that_cannot_be_imported_begins_no_run() -> None:
    with ProcessPool(calling("missing")) as pool:
        given = [run_of({})]
        pool.unsent.put(given)
        with pytest.raises(CallableUnavailableError, match="missing"):
            pool.poll(30)
        assert pool.stop() == []
        assert pool.unsent.remove() == given


def test_runs_that_were_not_begun_come_back_when_the_pool_is_stopped() -> None:
    runs = [run_of({"do": "sleep"}), run_of({"do": "echo"}), run_of({"do": "echo"})]
    with ProcessPool(calling()) as pool:
        pool.unsent.put(runs)
        assert eventually(lambda: not pool.poll(0.1) and _running(pool) == runs[:1], seconds=30, what="the first run")
        assert pool.stop() == []
        assert pool.unsent.remove() == runs[1:]
        assert pool.unfinished == 0


def _pids(pool: ProcessPool) -> list[int]:
    return [process._process.pid for process in pool._processes]


def _running(pool: ProcessPool) -> list[ClaimedRun]:
    """Return the runs that processes have begun and not ended."""
    unread = {process: tokens_left(process) for process in pool._processes}
    return [process.sent[0] for process in pool._processes if len(process.sent) > unread[process]]


def _in_order_of_end(pool: ProcessPool, runs: list[ClaimedRun]) -> list[UUID]:
    """Execute the runs, and return their ids as they end."""
    pool.unsent.put(runs)
    ended: list[UUID] = []
    while pool.unfinished:
        ended += [result.run_id for result in pool.poll(10)]
    return ended


def test_a_process_that_is_still_starting_has_been_given_no_run(tmp_path: Path) -> None:
    given = run_of({"do": "note", "file": str(tmp_path / "noted"), "word": "begun"})
    with ProcessPool(calling()) as pool:
        pool.unsent.put([given])
        assert pool.poll(0) == []
        assert pool.unsent.remove() == [given]
        assert pool.unfinished == 0
    assert not (tmp_path / "noted").exists()
