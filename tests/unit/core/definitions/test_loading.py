"""What a folder defines, and what is wrong in it; whoever reads the folder shows these mistakes.

What a person reads in a file is what the package reads: YAML 1.2, each key once.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workorders.core.definitions.loading import TRIGGERS, WORKFLOWS, Definitions, Kind, parse, read
from workorders.core.exceptions import ConfigurationError

TRIGGER = "name: bad\ntype: kafka\nworkflow: ship\ntopics: [bad]\n"
WORKFLOW = "name: bad\ncallable: shop:ship\n"
MISTAKES: list[tuple[Kind[Any], str, str]] = [
    (
        TRIGGERS,
        TRIGGER + "max_mesages: 5\n",
        ", line 5: max_mesages: there is no such field; did you mean max_messages?",
    ),
    (TRIGGERS, TRIGGER + "topics: [b]\n", ", line 5: topics: this key is in line 4 already, "),
    (TRIGGERS, "name: bad\ntype: kafka\nworkflow: ship\n", ": topics: this field is required."),
    (TRIGGERS, "type: ftp\n", ", line 1: type: expected one of cron, kafka, manual, webhook, got 'ftp'."),
    (TRIGGERS, "", ": a trigger file is a mapping with the fields name, type, workflow, ..."),
    (TRIGGERS, "name: [", ", line 1: this is not YAML: while parsing a flow node: "),
    (TRIGGERS, TRIGGER.replace("bad", "good"), ": name: trigger good is already defined in a.yaml; give "),
    (WORKFLOWS, WORKFLOW.replace("bad", "good"), ": name: workflow good is already defined in a.yaml; give "),
    (WORKFLOWS, "- a\n", ": a workflow file is a mapping with the fields name, callable, ..."),
    (WORKFLOWS, "name: bad\n", ": expected either callable or dag_id."),
    (
        WORKFLOWS,
        WORKFLOW + "retries:\n  max_retries: 2\n  after: [lost,\n    late]\n",
        ", line 5: retries.after: expected ",
    ),
    (WORKFLOWS, WORKFLOW + "limits: {wating: 1}\n", ", line 3: limits.wating: there is no such field; did you mean "),
]


@pytest.mark.parametrize(("kind", "text", "sentence"), MISTAKES, ids=[sentence for *_, sentence in MISTAKES])
def test_a_mistake_is_told_with_its_file_and_line_and_hides_no_other_file(
    tmp_path: Path, kind: Kind[Any], text: str, sentence: str
) -> None:
    good = (TRIGGER if kind is TRIGGERS else WORKFLOW).replace("bad", "good")
    for name, content in (("a.yaml", good), ("bad.yaml", text), ("c.yml", good.replace("good", "last"))):
        (tmp_path / name).write_text(content, encoding="utf-8")
    found = read(kind, kind.files(tmp_path))
    assert found.sources == {"good": tmp_path / "a.yaml", "last": tmp_path / "c.yml"}
    (mistake,) = found.mistakes
    assert mistake.source == tmp_path / "bad.yaml"
    assert str(mistake.error).startswith(f"bad.yaml{sentence}")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.symlink_to("/nowhere"), "this file cannot be read: No such file or directory."),
        (Path.mkdir, "this file cannot be read: Is a directory."),
        (lambda path: path.write_bytes(b"\xff"), "this is not YAML in UTF-8: "),
    ],
)
def test_what_cannot_be_read_is_a_mistake_like_another(
    tmp_path: Path, make: Callable[[Path], object], reason: str
) -> None:
    make(tmp_path / "bad.yaml")
    (mistake,) = read(WORKFLOWS, WORKFLOWS.files(tmp_path)).mistakes
    assert str(mistake.error).startswith(f"bad.yaml: {reason}")


def test_the_files_of_a_folder_come_by_name_and_a_missing_folder_is_reported(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", ".hidden.yaml", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in WORKFLOWS.files(tmp_path)] == [".hidden.yaml", "a.yml", "b.yaml"]
    assert WORKFLOWS.files(tmp_path / "missing", may_be_missing=True) == []
    with pytest.raises(ConfigurationError, match="does not exist; create it or name another"):
        WORKFLOWS.files(tmp_path / "missing")


def test_decorated_functions_of_modules_are_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: second\ncallable: shop:ship\n", encoding="utf-8")
    found = read(WORKFLOWS, [*WORKFLOWS.files(tmp_path), "support.decorated_workflows", "support.nowhere"])
    assert found.sources == {"second": tmp_path / "a.yaml", "first_steps": "support.decorated_workflows"}
    twice, missing = (str(mistake.error) for mistake in found.mistakes)
    assert twice.startswith("support.decorated_workflows: name: workflow second is already defined in a.yaml")
    assert missing.startswith("support.nowhere: this module of workflows cannot be imported")


def test_a_workflow_is_found_by_its_name_and_otherwise_the_mistake_of_a_source_that_may_define_it(
    tmp_path: Path,
) -> None:
    def found(name: str, *modules: str) -> Any:
        definitions: Definitions[Any] = read(WORKFLOWS, [*WORKFLOWS.files(tmp_path), *modules])
        return definitions.find(name)

    (tmp_path / "a.yaml").write_text("name: ship\ncallable: shop:ship\n", encoding="utf-8")
    assert (found("ship").callable, found("bill")) == ("shop:ship", None)
    (tmp_path / "b.yaml").write_text("name: bill\n", encoding="utf-8")
    assert found("ship").callable == "shop:ship"
    assert str(found("bill")) == "b.yaml: expected either callable or dag_id."
    assert found("refund") is None
    assert "cannot be imported" in str(found("refund", "support.nowhere"))


def test_a_value_without_quotes_has_the_type_of_yamls_core_schema() -> None:
    texts = ["NO", "no", "on", "off", "yes", "y", "1:20", "12:30:45", "2026-03-01", "2026-03-01T00:00:00Z"]
    texts += ["1_000", "0b11", "=", "<<", "1.2.3", "nullable", "-"]
    assert parse(f"[{', '.join(texts)}]", where="a.yaml")[0] == texts
    others: dict[str, Any] = {
        "012": 12,
        "0o12": 10,
        "0x1F": 31,
        "-3": -3,
        "1e3": 1000.0,
        ".5": 0.5,
        "-.inf": -float("inf"),
    }
    others |= {"true": True, "False": False, "~": None, "Null": None, "''": "", "'12'": "12", "!!str 12": "12"}
    assert parse(f"[{', '.join(others)}]", where="a.yaml")[0] == list(others.values())
    assert parse("%YAML 1.1\n---\n[NO, 012, on: off]", where="a.yaml")[0] == ["NO", 12, {"on": "off"}]
    assert parse("", where="a.yaml") == (None, {})


def test_an_alias_is_what_its_anchor_is_also_within_itself() -> None:
    content, lines = parse("a: &x\n  b: [1]\nc: *x\nd: &y [*y]\n", where="a.yaml")
    assert content["c"] == content["a"] == {"b": [1]}
    assert content["d"][0] is content["d"]
    assert (lines["a", "b", 0], lines["c",]) == (2, 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("topics: [a]\nname: x\ntopics: [b]\n", "line 3: topics: this key is in line 1 already"),
        ("f: {x: 1, y: 2, x: 3}", "line 1: f.x: this key is in line 1 already"),
        ("f:\n- a: 1\n  'a': 2\n", "line 3: f.0.a: this key is in line 2 already"),
        ("f: {1: a, 0x1: b}", 'line 1: this is not YAML: while constructing a mapping: found duplicate key "1"'),
    ],
)
def test_a_key_that_is_given_twice_is_refused_with_both_lines(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(text, where="a.yaml")
    assert str(refused.value).startswith(f"a.yaml, {sentence}")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "a: 1\nschedule: * * * * *\n",
            'line 2: schedule: YAML does not read a value that begins with *; quote it: schedule: "* * * * *"',
        ),
        (
            "schedule: */5 * * * * # often",
            'line 1: schedule: YAML does not read a value that begins with *; quote it: schedule: "*/5 * * * *"',
        ),
        (
            "schedule: @daily",
            'line 1: schedule: YAML does not read a value that begins with @; quote it: schedule: "@daily"',
        ),
        ("owner: !us", 'line 1: owner: YAML does not read a value that begins with !; quote it: owner: "!us"'),
        ("topics: [a, *]", "line 1: YAML does not read a value that begins with *; quote it"),
        (
            "text: a: b",
            "line 1: this is not YAML: in this line: mapping values are not allowed here; quote a text that contains a "
            "colon.",
        ),
        ("a: 'b\nc: 1", "line 1: this is not YAML: while scanning a quoted scalar: found unexpected end of stream."),
        (
            "a: [b,\n",
            "line 2: this is not YAML: while parsing a flow node: expected the node content, but found '<stream end>'.",
        ),
        ("a: [b\nc: 1", "line 2: this is not YAML: while parsing a flow sequence: expected ',' or ']', but got ':'."),
        (
            "a: 1\n---\nb: 1",
            "line 2: this is not YAML: expected a single document in the stream: but found another document.",
        ),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_line_and_a_value_to_quote_with_its_form(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(text, where="a.yaml")
    assert str(refused.value) == f"a.yaml, {sentence}"


@pytest.mark.parametrize(
    ("text", "reason"), [("a: \0", "unacceptable character #x0000"), (f"a: {'1' * 5000}", "Exceeds the limit")]
)
def test_characters_and_numbers_that_cannot_be_read_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^a\.yaml: this is not YAML: {reason}"):
        parse(text, where="a.yaml")
