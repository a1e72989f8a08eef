"""Mutations of what keeps one message from stopping a workflow."""

from mutations.mutation import Change, Mutation

DECODED, REGISTRY = "unit/kafka/formats/test_avro.py", "unit/kafka/formats/test_registry.py"
PROTOBUF, JSON_SCHEMA = "unit/kafka/formats/test_protobuf.py", "unit/kafka/formats/test_json_schema.py"
MAPPING, PROPERTY = "unit/kafka/ingest/test_record_mapping.py", "unit/kafka/formats/test_hostile_schemas.py"
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
        (Change("core/history/sql/work_orders.sql", "workorders.json_shown(dataclips.body)::json", "dataclips.body"),),
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
        "search-for-a-number-fails-its-page",
        0,
        (Change("core/selectors.py", "(ValueError, RecursionError, ArithmeticError)", "(ValueError, RecursionError)"),),
        ("unit/core/test_selectors.py::test_any_text_may_be_searched_for_as_an_ordering_key",),
    ),
    Mutation(
        "first-range-for-small-messages",
        4,
        (Change("kafka/planning/range_planning.py", "= 16.0 * 1024", "= 1024.0"),),
        (
            "unit/kafka/planning/test_range_planning.py::"
            "test_the_first_range_of_a_partition_is_for_large_messages_and_the_next_one_for_those_that_it_had",
        ),
    ),
    Mutation(
        "key-forgotten-within-the-minute",
        2,
        (
            Change(
                "core/definitions/trigger.py",
                "window: Annotated[float, seconds(60)]",
                "window: Annotated[float, seconds(1)]",
            ),
        ),
        (
            "unit/core/definitions/test_validation.py::"
            "test_an_error_names_the_file_and_the_field_and_what_belongs_there",
        ),
    ),
    Mutation(
        "run-in-hand-given-back",
        2,
        (Change("core/runs/sql/claiming.sql", " AND runs.id <> ALL (%(but)b::uuid[])", ""),),
        (f"{UNREADABLE}::test_what_a_group_finds_again_is_bounded_and_what_it_has_in_hand_stays_its_own",),
    ),
)

HOSTILE_SCHEMAS = (
    Mutation(
        "exception-of-a-decoder-stops-its-partition",
        4,
        (
            Change("kafka/formats/payloads.py", "if not isinstance(error, Exception) and", "if True or"),
            Change("kafka/formats/json_schema.py", "except ValueError:  # it", "except ZeroDivisionError:  # it"),
        ),
        (
            f"{MAPPING}::test_whatever_a_decoder_raises_is_a_rejection",
            f"{JSON_SCHEMA}::test_a_deep_value_for_which_a_rule_does_not_hold_is_rejected",
            f"{PROPERTY}::test_json_schema_is_bounded",
        ),
    ),
    Mutation(
        "values-of-avro-not-counted",
        4,
        (Change("kafka/formats/avro.py", "    _budget.get().spend(schema[_COST])\n", ""),),
        (
            f"{DECODED}::test_a_message_that_would_be_far_more_json_than_its_bytes_is_rejected_while_it_is_read",
            f"{PROPERTY}::test_avro_is_bounded",
        ),
    ),
    Mutation(
        "decimals-of-any-length",
        4,
        (
            Change("kafka/formats/avro.py", "    _budget.get().spend(scale)\n", ""),
            Change("kafka/formats/avro.py", 'not 0 <= schema.get("scale", 0) <= _MAX_SCALE', "False"),
        ),
        (
            f"{DECODED}::test_a_schema_by_which_few_bytes_exhaust_the_process_is_not_used",
            f"{PROPERTY}::test_avro_is_bounded",
        ),
    ),
    Mutation(
        "defaults-of-protobuf-not-counted",
        4,
        (Change("kafka/formats/protobuf.py", "has_any or messages.may_grow(rest)", "has_any"),),
        (f"{PROPERTY}::test_protobuf_is_bounded",),
    ),
    Mutation(
        "copy-of-a-message-for-each-level",
        4,
        (Change("kafka/formats/protobuf.py", "payload = memoryview(payload)", "payload = bytes(payload)"),),
        (f"{PROTOBUF}::test_a_message_in_many_others_is_not_copied_for_each_of_them",),
    ),
    Mutation(
        "request-for-every-invented-id",
        4,
        (Change("kafka/formats/registry.py", "len(unknown_ids) == MAX_UNKNOWN", "False"),),
        (f"{DECODED}::test_ids_that_senders_invent_are_few_requests_in_a_minute",),
    ),
    Mutation(
        "busy-registry-asked-at-once",
        4,
        (Change("kafka/formats/registry.py", "time.sleep(min(int(seconds[:9]), _MAX_WAIT_SECONDS))", "pass"),),
        (f"{REGISTRY}::test_a_registry_that_is_asked_too_often_is_asked_again_when_it_says",),
    ),
    Mutation(
        "refusal-of-one-schema-stops-its-partition",
        4,
        (
            Change(
                "kafka/formats/registry.py", "_ABOUT_A_SCHEMA and self._shows_subjects()", "_ABOUT_A_SCHEMA and False"
            ),
        ),
        (f"{REGISTRY}::test_an_answer_about_one_schema_is_no_outage_if_the_registry_shows_others",),
    ),
    Mutation(
        "answer-of-a-registry-without-an-end",
        4,
        (
            Change(
                "kafka/formats/registry.py",
                "if len(content) > _MAX_ANSWER_BYTES or time.monotonic() > until:",
                "if False:",
            ),
        ),
        (f"{REGISTRY}::test_an_answer_that_is_far_longer_than_a_schema_is_given_up_before_it_is_in_memory",),
    ),
    Mutation(
        "parsed-schema-of-a-sender-believed",
        4,
        (Change("kafka/formats/avro.py", "**{name: schema[name] for name in _KEPT if name in schema}", "**schema"),),
        (f"{DECODED}::test_a_parsed_schema_that_a_schema_contains_is_not_believed",),
    ),
    Mutation(
        "long-schema-without-a-bound",
        4,
        (
            Change("kafka/definition/json_schema.py", "sum(map(len, patterns)) > _PATTERN_CHARACTERS", "False"),
            Change("kafka/formats/protobuf.py", "sum(map(_count_types, files)) > _MAX_TYPES", "False"),
        ),
        (f"{PROPERTY}::test_a_long_schema_is_bounded",),
    ),
    Mutation(
        "compiler-of-sources-without-a-limit",
        4,
        (
            Change(
                "kafka/formats/protobuf.py",
                "    resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))\n",
                "    pass\n",
            ),
        ),
        (f"{PROTOBUF}::test_the_memory_of_the_compiler_of_sources_has_a_limit",),
    ),
    Mutation(
        "schemas-kept-without-a-bound",
        4,
        (Change("kafka/formats/registry.py", "](_MAX_KEPT_CHARACTERS, lambda", "](10**12, lambda"),),
        (f"{DECODED}::test_only_some_characters_of_schemas_are_kept",),
    ),
    Mutation(
        "references-without-a-memory",
        4,
        (Change("kafka/formats/registry.py", "if place not in asked:", "if True:"),),
        (f"{REGISTRY}::test_each_schema_that_others_refer_to_is_got_once", f"{PROPERTY}::test_references_are_bounded"),
    ),
    Mutation(
        "references-without-a-bound",
        4,
        (Change("kafka/formats/registry.py", "if len(references) > _MAX_REFERENCES or", "if False and"),),
        (f"{REGISTRY}::test_a_schema_that_refers_to_very_many_others_is_not_used",),
    ),
    Mutation(
        "schema-of-exponential-time",
        4,
        (Change("kafka/definition/json_schema.py", "self._looks_within(levels) * size <= _MAX_LOOKS", "True"),),
        (f"{PROPERTY}::test_json_schema_is_bounded",),  # the only one whose process may hang
    ),
)
"""What a few bytes of a message, or of the schema that it names, may cost."""
