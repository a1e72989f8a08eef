"""Mutations of what keeps one message from stopping a workflow."""

from mutations.mutation import Change, Mutation

BODY, UNREADABLE = "unit/core/creation/test_json_validation.py", "integration/core/history/test_unreadable.py"
FUNCTIONS = "core/migrations/versions/core_0001.sql"

HOSTILE_VALUES = (
    Mutation(
        "exponents-without-end",
        4,
        (Change("core/creation/json_validation.py", "(odd and _may_grow(value))", "False"),),
        (
            f"{BODY}::test_numbers_that_grow_too_long_together_are_rejected",
            f"{BODY}::test_a_far_exponent_is_found_whatever_follows_it",
        ),
    ),
    Mutation(
        "exponents-not-added-up",
        4,
        (Change("core/creation/json_validation.py", "total += size if", "total += 0 if"),),
        (f"{BODY}::test_the_last_straw_is_named",),
    ),
    Mutation(
        "hostile-message-stops-its-workflow",
        4,
        (
            Change("core/creation/json_validation.py", "(odd and _may_grow(value))", "False"),
            Change(FUNCTIONS, "WHEN program_limit_exceeded OR", "WHEN"),
        ),
        ("integration/kafka/ingest/test_hostile_messages.py::test_whatever_is_sent_its_neighbors_come_through",),
    ),
    Mutation(
        "unreadable-input-fails-the-statement",
        4,
        (Change(FUNCTIONS, "WHEN program_limit_exceeded OR", "WHEN"),),
        (
            f"{UNREADABLE}::test_a_rule_rejects_what_cannot_be_read_together_with_the_others",
            f"{UNREADABLE}::test_full_text_is_filled_past_an_input_that_cannot_be_read",
        ),
    ),
    Mutation(
        "unreadable-input-stops-full-text",
        4,
        (
            Change(
                "core/history/sql/search_index.sql",
                "left(workorders.json_text(dataclips.body), %",
                "left(dataclips.body::text, %",
            ),
        ),
        (f"{UNREADABLE}::test_full_text_is_filled_past_an_input_that_cannot_be_read",),
    ),
    Mutation(
        "unreadable-input-stops-a-partition",
        4,
        (Change("core/admission/sql/pipeline.sql", "workorders.json_text(body)", "body::text"),),
        (f"{UNREADABLE}::test_a_rule_rejects_what_cannot_be_read_together_with_the_others",),
    ),
    Mutation(
        "unreadable-input-stops-exports",
        4,
        (Change("core/history/sql/export.sql", "workorders.json_shown(dataclips.body)\n", "dataclips.body::text\n"),),
        (f"{UNREADABLE}::test_an_export_has_a_placeholder_for_an_input_that_cannot_be_read",),
    ),
    Mutation(
        "unreadable-input-is-never-shown",
        4,
        (
            Change(
                "core/history/sql/work_orders.sql",
                "workorders.json_shown(dataclips.body, true)",
                "jsonb_pretty(dataclips.body)",
            ),
        ),
        (
            f"{UNREADABLE}::test_an_input_that_cannot_be_read_is_listed_and_shown",
            f"{UNREADABLE}::test_what_only_its_indents_make_too_long_is_shown_without_them",
        ),
    ),
    Mutation(
        "claim-fills-the-memory",
        4,
        (Change(FUNCTIONS, "EXIT WHEN is_unreadable OR bytes >= max_bytes;", ""),),
        (
            f"{UNREADABLE}::test_a_claim_is_full_when_its_inputs_are_many_bytes",
            f"{UNREADABLE}::test_what_is_behind_an_unreadable_input_waits_for_the_next_claim",
        ),
    ),
    Mutation(
        "run-in-hand-given-back",
        2,
        (Change("core/runs/sql/claiming.sql", " AND runs.id <> ALL (%(but)s::uuid[])", ""),),
        (f"{UNREADABLE}::test_what_a_group_finds_again_is_bounded_and_what_it_has_in_hand_stays_its_own",),
    ),
)
