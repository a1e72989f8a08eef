"""The facts of a field in the reference are those of its schema, in the forms that a file has."""

import pytest
from field_reference import field_reference


@pytest.mark.parametrize(
    ("kind", "field", "facts"),
    [
        ("kafka", "max_message_bytes", "; default `10MiB`; at least `1KiB`; at most `32MiB`"),
        ("kafka", "poll_interval", "; default `1s`; at least `100ms`"),
        ("kafka", "topics", "list of text; required; at least `1` entries"),
        ("kafka", "tombstones", "`reject` or `accept`; default `reject`"),
        ("webhook", "reply_timeout", "; default `30s`; at least `100ms`; at most `5m`"),
        ("outbox", "topics.<name>.compact", "boolean; default `false`"),
    ],
)
def test_a_field_has_its_type_its_default_and_its_limits(kind: str, field: str, facts: str) -> None:
    (section,) = (part for part in field_reference(kind).split("### ") if part.startswith(f"`{field}`\n"))
    assert section.strip().endswith(facts)


def test_the_fields_of_a_variant_name_it() -> None:
    assert "### `authentication.header` with `type: hmac`\n" in field_reference("webhook")


def test_a_field_that_every_trigger_has_is_explained_once() -> None:
    assert "### `notify`\n" in field_reference("trigger")
    assert [type_ for type_ in ("kafka", "webhook", "cron", "manual") if "### `notify`" in field_reference(type_)] == []


def test_a_field_that_several_variants_share_is_explained_once_and_names_them() -> None:
    (section,) = (part for part in field_reference("webhook").split("### ") if "`authentication.connection`" in part)
    assert "- With `type`: `api_key`, `basic`, " in section
