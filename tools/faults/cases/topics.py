"""What happens to topics: some of it loses messages, which no program can undo; then the partition must report it."""

import re

from faults import logs
from faults.catalogue import fault
from faults.scene import PARTITIONS, Scene
from support.topics import Topics


def _expect(scene: Scene, partitions: set[int], sentence: str) -> None:
    """Compare the reasons on the ledger with what must be there.

    Raises:
        AssertionError: another partition stalls, or the sentence is another one.
    """
    errors = scene.errors()
    assert set(errors) == partitions, errors
    for error in errors.values():
        assert re.search(sentence, error), error


def _recreate(scene: Scene, *counts: int) -> None:
    """Re-create the topic with these numbers of other messages in its partitions."""
    # A separate client: one that knew the old topic may take a while to believe in the new one.
    topics = Topics(scene.site.kafka_settings)
    topics.create(scene.name, PARTITIONS)
    for partition, count in enumerate(counts):
        topics.produce(scene.name, [b'{"another": "message"}'] * count, partition=partition)


@fault("topic grown")
def topic_grown(scene: Scene) -> None:
    batch_id = scene.planned()
    attempt = scene.start_ingest(batch_id)
    scene.topics.grow(scene.name, PARTITIONS + 2)
    scene.injected += 1
    scene.produce(first_partition=PARTITIONS, partitions=2, backlog=100)
    attempt.succeed()
    scene.lifted()


@fault("records deleted before they were read")
def records_deleted(scene: Scene) -> None:
    batch_id = scene.planned()
    begin, end = scene.range_of(batch_id, 1)
    cut = scene.random.randrange(begin + 1, end)
    scene.topics.delete_before(scene.name, cut, 1)
    scene.stalled = {1}
    scene.injected += 1
    scene.start_ingest(batch_id).fail("were deleted by retention before they were read")
    _expect(scene, {1}, re.escape(f"{scene.name} 1 [{begin}, {end}): offsets [{begin}, {cut}) were deleted"))
    assert scene.ranges(batch_id) == {0: True, 1: False, 2: True}


@fault("records expired before they were read")
def records_expired(scene: Scene) -> None:
    assert scene.finish(scene.planned())
    batch_id = scene.planned()
    scene.stop_producing()
    logs.expire(scene.site, scene.name)
    scene.stalled = set(range(PARTITIONS))
    scene.injected += 1
    scene.start_ingest(batch_id).fail("were deleted by retention before they were read")
    _expect(scene, scene.stalled, r"offsets \[\d+, \d+\) were deleted by retention before they were read")


@fault("topic deleted with messages unread")
def topic_deleted(scene: Scene) -> None:
    assert scene.finish(scene.planned())
    batch_id = scene.planned()
    scene.stop_producing()
    scene.topics.delete(scene.name)
    scene.stalled = set(range(PARTITIONS))
    scene.injected += 1
    scene.start_ingest(batch_id).fail("Kafka does not have this partition any more")
    _expect(scene, scene.stalled, "Kafka does not have this partition any more; nothing was committed there")


@fault("topic deleted and re-created while a batch waits")
def topic_recreated(scene: Scene) -> None:
    assert scene.finish(scene.planned())
    batch_id = scene.planned()
    scene.stop_producing()
    scene.topics.delete(scene.name)
    _recreate(scene, 3000, 3000, 0)
    scene.stalled = set(range(PARTITIONS))
    scene.injected += 1
    scene.start_ingest(batch_id).fail("was deleted and re-created")
    _expect(scene, scene.stalled, "was deleted and re-created, so its offsets mean other messages now")


@fault("topic deleted and re-created while nothing waits", short=True)
def topic_recreated_unnoticed(scene: Scene) -> None:
    scene.stop_producing()
    assert scene.finish(scene.planned())
    before = scene.next_offsets()
    scene.topics.delete(scene.name)
    # One partition with more messages than were read of it, one with fewer, one with none.
    _recreate(scene, before[0] + 5, 5, 0)
    scene.stalled = set(range(PARTITIONS))
    scene.injected += 1
    scene.start_ingest(scene.planned()).fail("was deleted and re-created")
    _expect(scene, scene.stalled, "was deleted and re-created, so its offsets mean other messages now")
    assert scene.next_offsets() == before


@fault("log cut short behind the ledger")
def log_cut_short(scene: Scene) -> None:
    scene.stop_producing()
    assert scene.finish(scene.planned())
    before = scene.next_offsets()
    logs.cut(scene.site, scene.name, 2)
    scene.stalled = {2}
    scene.injected += 1
    scene.start_ingest(scene.planned()).fail("was truncated")
    _expect(scene, {2}, r"the log ends at offset \d+, so it was truncated")
    assert scene.next_offsets() == before
