"""A tree of JSON is bounded, whatever strangers send."""

import json

from workorders.pages import json_tree
from workorders.pages.json_tree import Node


def test_a_value_becomes_a_tree_in_its_order() -> None:
    tree = json_tree.of('{"b": [1, null], "a": {"c": true}, "text": "x"}')
    assert tree is not None
    assert tree.root is not None
    assert [(child.name, child.kind) for child in tree.root.children] == [
        ("b", "array"),
        ("a", "object"),
        ("text", "string"),
    ]
    assert tree.root.children[0].children == (Node("0", "number", "1"), Node("1", "null", "null"))
    assert tree.is_complete


def test_numbers_are_shown_with_every_digit() -> None:
    written = ["12345678901234567890123", "1.10000000000000000001", "1e400"]
    tree = json_tree.of(f"[{', '.join(written)}]")
    assert tree is not None
    assert tree.root is not None
    assert [child.text for child in tree.root.children] == [
        "12345678901234567890123",
        "1.10000000000000000001",
        "1e400",
    ]


def test_many_nodes_are_cut_off_and_counted() -> None:
    tree = json_tree.of(json.dumps(list(range(5000))))
    assert tree is not None
    assert tree.root is not None
    assert nodes(tree.root) <= json_tree.MAX_NODES + 1
    assert tree.root.children[-1] == Node(None, "more", "4,001 more are in the download")
    assert not tree.is_complete


def test_many_branches_are_cut_off_at_every_level() -> None:
    tree = json_tree.of(json.dumps([[{"a": [1, 2]}] * 20] * 200))
    assert tree is not None
    assert tree.root is not None
    assert nodes(tree.root) < json_tree.MAX_NODES + 10


def test_deep_levels_are_cut_off() -> None:
    tree = json_tree.of("[" * 100 + "1" + "]" * 100)
    assert tree is not None
    assert tree.root is not None
    assert depth(tree.root) == json_tree.MAX_DEPTH + 2


def test_what_is_too_deep_or_too_large_to_be_parsed_is_shown_as_text() -> None:
    for text in ("[" * 100_000, f'"{"x" * 300_000}"'):
        tree = json_tree.of(text)
        assert tree is not None
        assert tree.root is None
        assert tree.beginning == text[: 64 * 1024]
        assert not tree.is_complete


def test_the_beginning_of_a_text_that_is_too_large_counts_as_the_whole() -> None:
    tree = json_tree.of('{"a": 1}', 300_000)
    assert tree is not None
    assert (tree.root, tree.beginning, tree.size, tree.is_complete) == (None, '{"a": 1}', 300_000, False)


def test_a_long_text_is_cut_off_with_its_length() -> None:
    tree = json_tree.of(json.dumps("x" * 5000))
    assert tree is not None
    assert tree.root is not None
    assert tree.root.text.endswith("… (5,000 characters)")


def test_nothing_has_no_tree() -> None:
    assert json_tree.of(None) is None


def nodes(node: Node) -> int:
    return 1 + sum(map(nodes, node.children))


def depth(node: Node) -> int:
    return 1 + max(map(depth, node.children), default=0)
