import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workorders.core.postgres.named_queries import load_queries

OURS = [
    ("workorders.core.creation", "sql/work_orders.sql"),
    ("workorders.core", "sql/triggers.sql"),
    ("workorders.kafka.ledger", "sql/positions.sql"),
    ("workorders.kafka.ledger", "sql/batches.sql"),
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An importable package that holds what a test writes."""
    name = f"queries_{tmp_path.name.replace('-', '_')}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def write(package: str, text: str) -> str:
    folder = next(Path(path) for path in sys.path if (Path(path) / package).is_dir())
    (folder / package / "some.sql").write_text(text, encoding="utf-8")
    return "some.sql"


def test_queries_are_found_by_name(package: str) -> None:
    file = write(package, "-- a title\n-- name: first\n-- why\nSELECT 1;\n\n-- name: second\nSELECT\n  2;\n")
    assert load_queries(package, file) == {"first": "-- why\nSELECT 1;", "second": "SELECT\n  2;"}


def test_a_block_takes_the_place_of_each_use_of_it(package: str) -> None:
    text = """
-- block: bounds
id > 1
AND id < 9

-- block: ordered
    -- use: bounds
ORDER BY 1

-- name: first
SELECT 1 WHERE
-- use: ordered
;

-- name: second
SELECT 2 WHERE
-- use: bounds
"""
    assert load_queries(package, write(package, text)) == {
        "first": "SELECT 1 WHERE\nid > 1\nAND id < 9\nORDER BY 1\n;",
        "second": "SELECT 2 WHERE\nid > 1\nAND id < 9",
    }


def test_a_file_uses_the_blocks_of_another_one(package: str) -> None:
    file = write(package, "-- name: first\nSELECT 1 WHERE\n-- use: bounds\n")
    shared = "shared.sql"
    folder = next(Path(path) for path in sys.path if (Path(path) / package).is_dir())
    (folder / package / shared).write_text("-- block: bounds\nid > 1\n-- name: other\nSELECT 2;\n", encoding="utf-8")
    assert load_queries(package, file, blocks_from=shared) == {"first": "SELECT 1 WHERE\nid > 1"}


def test_a_block_that_is_not_there_is_refused(package: str) -> None:
    file = write(package, "-- name: first\nSELECT 1\n-- use: elsewhere\n")
    with pytest.raises(ValueError, match="elsewhere"):
        load_queries(package, file)


@pytest.mark.parametrize("text", ["", "SELECT 1;", "-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;"])
def test_a_file_without_names_or_with_one_twice_is_refused(package: str, text: str) -> None:
    with pytest.raises(ValueError, match="needs queries with unique names"):
        load_queries(package, write(package, text))


@pytest.mark.parametrize(("package", "file"), OURS)
def test_every_query_of_ours_is_one_statement(package: str, file: str) -> None:
    for name, query in load_queries(package, file).items():
        statement = re.sub(r"--.*", "", query)
        assert statement.count(";") == 1, name
        assert statement.rstrip().endswith(";"), name
