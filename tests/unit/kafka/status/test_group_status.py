"""What is said of a consumer group that is not where the ledger is."""

from workorders.kafka.status.group_status import notes


def test_nothing_is_said_of_a_group_that_follows_the_ledger_with_nobody_in_it() -> None:
    assert notes("g", {}, []) == []


def test_each_way_to_differ_is_one_sentence_with_its_partitions() -> None:
    said = notes("g", {"none": ["a 2"], "ahead": ["a 0", "a 1"], "behind": ["b 0"]}, [])
    assert [text.split(":")[0] for text in said] == [
        "The group g is ahead of the ledger on a 0, a 1",
        "The group g is behind the ledger on b 0",
        "The group g has no offset on a 2",
    ]
    assert all(text.endswith("The next commit corrects the group.") for text in said)


def test_another_consumer_is_named_with_what_it_hinders() -> None:
    (said,) = notes("g", {}, ["shop-1 at 10.0.0.3", "shop-2 at 10.0.0.4"])
    assert said.startswith("The group g has another consumer (shop-1 at 10.0.0.3, shop-2 at 10.0.0.4), ")
    assert "no offsets can be committed" in said
