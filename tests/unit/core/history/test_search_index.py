import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.core.history import search_index


def test_punctuation_parts_words_and_case_does_not_count() -> None:
    assert search_index.tokenize("PAT-0042, müller@Ward.example not_json") == [
        *("pat", "0042", "müller", "ward", "example", "not", "json")
    ]


def test_an_escape_of_json_is_no_letter() -> None:
    assert search_index.tokenize(r'{"note": "first\nsecond\u0001third \"quoted\" C:\\new"}') == [
        *("note", "first", "second", "third", "quoted", "c", "new")
    ]


def test_a_long_run_of_letters_counts_as_several_words() -> None:
    found = search_index.tokenize("x" * (2 * search_index.MAX_WORD_CHARACTERS + 3))
    assert [len(word) for word in found] == [search_index.MAX_WORD_CHARACTERS, search_index.MAX_WORD_CHARACTERS, 3]


def test_a_vector_has_every_word_once_and_quoted() -> None:
    vector = search_index.to_tsvector_literal('{"a": "b a"}', None, "c")
    assert sorted(vector.split()) == ["'a'", "'b'", "'c'"]
    assert search_index.to_tsvector_literal("{}", None) == ""


def test_a_query_wants_all_words_and_a_star_the_beginning_of_one() -> None:
    assert search_index.to_tsquery_literal("Ada PAT-00*") == "'ada' & 'pat' & '00':*"


@pytest.mark.parametrize("text", ["", "  ", "***", "'&|!"])
def test_a_text_without_a_word_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="holds no word"):
        search_index.to_tsquery_literal(text)
