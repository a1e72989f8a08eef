"""The notes on a consumer group that is not where the ledger is."""

from workorders.kafka.status.group_status import notes


def test_a_group_without_members_that_follows_the_ledger_has_no_notes() -> None:
    assert notes("g", {}, []) == []


def test_each_way_to_differ_is_one_sentence_with_its_partitions() -> None:
    found = notes("g", {"none": ["a 2"], "ahead": ["a 0", "a 1"], "behind": ["b 0"]}, [])
    assert [text.split(":")[0] for text in found] == [
        "The group g is ahead of the ledger on a 0, a 1",
        "The group g is behind the ledger on b 0",
        "The group g has no offset on a 2",
    ]
    assert all(text.endswith("The next commit corrects the group.") for text in found)


def test_another_consumer_is_named_with_what_it_hinders() -> None:
    (note,) = notes("g", {}, ["shop-1 at 10.0.0.3", "shop-2 at 10.0.0.4"])
    assert note.startswith("The group g has another consumer (shop-1 at 10.0.0.3, shop-2 at 10.0.0.4), ")
    assert "no offsets can be committed" in note
