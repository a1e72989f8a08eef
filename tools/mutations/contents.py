"""What topics contain: filters, formats, and dead letters."""

from mutations.mutation import Change, Mutation

FILTER = "integration/kafka/ingest/test_filter.py"
DEAD = "integration/kafka/ingest/test_dead_letters.py"
FORMATS, AVRO = "integration/kafka/ingest/test_formats.py", "unit/kafka/formats/test_avro.py"

CONTENTS = (
    Mutation(
        "replay-with-the-filter-of-now",
        7,
        (
            Change(
                "kafka/ledger/sql/batches.sql",
                "triggers.definition || jsonb_build_object('filter', batches.filter),",
                "triggers.definition,",
            ),
        ),
        (f"{FILTER}::test_a_batch_keeps_its_filter_for_a_late_try_and_for_a_replay",),
    ),
    Mutation(
        "unavailable-registry-taken-for-bad-messages",
        1,
        (Change("kafka/formats/registry.py", "except RegistryError:", "except ZeroDivisionError:"),),
        (f"{FORMATS}::test_a_range_stalls_while_the_registry_is_unavailable_and_loses_nothing",),
    ),
    Mutation(
        "recursive-schema-read-by",
        1,
        (Change("kafka/formats/avro.py", "if name in self._open:", "if False:"),),
        (f"{AVRO}::test_a_schema_by_which_few_bytes_exhaust_the_process_is_not_used",),
    ),
    Mutation(
        "login-of-the-registry-shown",
        9,
        (Change("core/secrets.py", "|ssl_key|user\\.info", "|ssl_key"),),
        (
            "unit/kafka/client/test_secrets.py"
            "::test_the_login_of_the_schema_registry_travels_and_is_masked_like_that_of_kafka",
        ),
    ),
    Mutation(
        "dead-letters-of-earlier-ingests-published-again",
        2,
        (Change("kafka/ingest/sql/dead_letters.sql", "AND work_orders.created_at = now()", "AND true"),),
        (f"{DEAD}::test_messages_that_are_read_again_after_the_ledger_was_set_back_are_not_published_again",),
    ),
    Mutation(
        "large-dead-letter-stops-its-partition",
        4,
        (Change("kafka/ingest/dead_letters.py", "except OutboxMessageError:", "except ZeroDivisionError:"),),
        (f"{DEAD}::test_a_message_that_is_larger_than_the_outbox_takes_stops_nothing",),
    ),
)
