"""An operator decides by the real command how to continue where Kafka lost messages; the count must be right then."""

import re
import signal

from faults import logs
from faults.breakpoints import BEFORE_COMMIT, COMMAND, Breakpoint
from faults.catalogue import fault
from faults.database import until_no_session_is_connected
from faults.holding import held
from faults.oracle import Gone
from faults.processes import kill
from faults.scene import PARTITIONS, Scene
from support.topics import Topics

# The command commits nothing before, but reads in separate transactions.
_OF_THE_DECISION = b"INSERT INTO workorders.kafka_decisions"


def _stalled_by_a_gap(scene: Scene) -> None:
    """Let Kafka delete messages of partition 1 before they were read, and the partition stall."""
    batch_id = scene.planned()
    begin, end = scene.range_of(batch_id, 1)
    cut = scene.random.randrange(begin + 1, end)
    scene.topics.delete_before(scene.name, cut, 1)
    scene.gone.append(Gone(1, begin, cut))
    scene.start_ingest(batch_id).fail(re.escape(f"offsets [{begin}, {cut}) were deleted by retention"))
    assert set(scene.errors()) == {1}, scene.errors()
    assert scene.ranges(batch_id) == {0: True, 1: False, 2: True}


def _recorded(scene: Scene) -> int:
    """Return how many decisions are recorded, as the command reports them."""
    output = scene.start_command("decisions", "list", "--trigger", scene.name, "--json").succeed().output()
    return output.count('"decided_at":')


@fault("records deleted unread, and an operator continues behind the gap", short=True)
def gap_resumed(scene: Scene) -> None:
    _stalled_by_a_gap(scene)
    scene.injected += 1
    (lost,) = scene.gone
    output = scene.start_decision("skip-lost").succeed().output()
    assert f"offsets [{lost.start}, {lost.end}) ({lost.end - lost.start:,}) get no work order" in output, output
    assert scene.errors() == {}
    assert _recorded(scene) == 1
    scene.lifted()


@fault("topic re-created, and an operator accepts the new one")
def topic_accepted(scene: Scene) -> None:
    scene.stop_producing()
    assert scene.finish(scene.planned())
    scene.topics.delete(scene.name)
    # A separate client: one that knew the old topic may take a while to believe in the new one.
    Topics(scene.site.kafka_settings).create(scene.name, PARTITIONS)
    scene.produce(log=1)
    scene.injected += 1
    scene.start_ingest(scene.planned()).fail("was deleted and re-created")
    assert set(scene.errors()) == set(range(PARTITIONS)), scene.errors()
    scene.start_decision("accept-topic").succeed()
    assert scene.next_offsets() == dict.fromkeys(range(PARTITIONS), 0)
    assert _recorded(scene) == PARTITIONS
    scene.lifted()


@fault("log cut short behind the ledger, and an operator continues at its end")
def cut_log_resumed(scene: Scene) -> None:
    # A partition without transactions: a cut through one would never end it, and nothing behind it would be readable.
    scene.topics.grow(scene.name, PARTITIONS + 1)
    scene.produce(first_partition=PARTITIONS, partitions=1, backlog=200, plain=True)
    scene.stop_producing()
    assert scene.finish(scene.planned())
    before = scene.next_offsets()[PARTITIONS]
    logs.cut(scene.site, scene.name, PARTITIONS)
    scene.injected += 1
    scene.start_ingest(scene.planned()).fail("was truncated")
    assert set(scene.errors()) == {PARTITIONS}, scene.errors()
    scene.start_decision("skip-lost", "--partition", str(PARTITIONS)).succeed()
    assert scene.next_offsets()[PARTITIONS] < before
    # The same offsets as before, with other messages.
    scene.produce(first_partition=PARTITIONS, partitions=1, backlog=before, log=1)
    scene.lifted()


@fault("decision killed before its COMMIT, and repeated")
def decision_killed(scene: Scene) -> None:
    _stalled_by_a_gap(scene)
    before = scene.next_offsets(), scene.errors()
    point = Breakpoint(COMMAND, BEFORE_COMMIT, _OF_THE_DECISION)
    with held(scene, point, lambda: scene.start_decision("skip-lost")) as decision:
        kill(decision.owner)
        scene.injected += 1
    assert decision.task.wait() == -signal.SIGKILL
    until_no_session_is_connected(scene.site, COMMAND)
    assert (scene.next_offsets(), scene.errors()) == before
    assert _recorded(scene) == 0
    scene.start_decision("skip-lost").succeed()
    assert _recorded(scene) == 1
    scene.lifted()


@fault("decision's COMMIT sent and no answer")
def decision_without_answer(scene: Scene) -> None:
    _stalled_by_a_gap(scene)
    point = Breakpoint(COMMAND, BEFORE_COMMIT, _OF_THE_DECISION, lose_answer=True)
    with held(scene, point, lambda: scene.start_decision("skip-lost")) as decision:
        scene.injected += 1
    decision.task.fail("so the decision was made or was not; see `workorders decisions list`")
    assert _recorded(scene) == 1
    scene.start_decision("skip-lost").fail("nothing was changed")
    assert _recorded(scene) == 1
    scene.lifted()
