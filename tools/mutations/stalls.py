"""Mutations of the wait of a stalled batch without a worker."""

from mutations.mutation import Change, Mutation

CREATE, WAIT = (
    "integration/kafka/airflow/test_create_work_orders.py",
    "integration/kafka/airflow/test_stalled_batch.py",
)
OPERATOR, TRIGGER = "kafka/airflow/create_work_orders.py", "kafka/airflow/stalled_batch.py"

STALLS = (
    Mutation(
        "long-stall-keeps-its-tries",
        6,
        (Change(OPERATOR, "if not is_long_stall(self, ti, wait):", "if True:"),),
        (f"{CREATE}::test_a_stall_that_lasts_is_deferred_with_its_error_and_continues_after_a_decision",),
    ),
    Mutation(
        "retry-by-the-file-of-the-last-planned-batch",
        6,
        (Change("kafka/ingest/ingest_attempt.py", "planner.register(self.database, definition)", "pass"),),
        (f"{CREATE}::test_a_retry_uses_the_current_file_although_the_stalled_trigger_plans_no_batch",),
    ),
    Mutation(
        "first-failure-deferred",
        5,
        (Change("airflow/retries.py", " or tries_since_clear(ti.try_number, ti.max_tries) == 1:", ":"),),
        (
            "unit/airflow/test_retries.py"
            "::test_a_stall_is_long_when_it_has_failed_before_and_its_next_wait_is_of_the_longest",
        ),
    ),
    Mutation(
        "error-of-a-deferred-task-not-logged",
        5,
        (Change(OPERATOR, "log_wrapped(self.log, sentence)", "pass"),),
        (f"{CREATE}::test_a_stall_that_lasts_is_deferred_with_its_error_and_continues_after_a_decision",),
    ),
    Mutation(
        "nothing-committed-said-of-what-may-be",
        5,
        (Change(OPERATOR, "NOTHING_COMMITTED if self._attempted is None else", "NOTHING_COMMITTED if True else"),),
        (f"{CREATE}::test_an_engine_of_ones_own_submits_a_batch_and_the_ledger_tells_what_came_of_it",),
    ),
    Mutation(
        "error-not-shown-while-deferred",
        5,
        (Change(TRIGGER, "log_wrapped(self.log, self.error)", "pass"),),
        (f"{WAIT}::test_a_batch_that_stays_refused_wakes_no_worker_before_its_next_try_is_due_and_changes_nothing",),
    ),
    Mutation(
        "full-workflow-not-noticed-while-deferred",
        6,
        (Change(TRIGGER, "limits.require_capacity(database, batch.trigger)", "pass"),),
        (f"{WAIT}::test_a_full_workflow_holds_the_batch_until_it_takes_work_orders_again",),
    ),
    Mutation(
        "decision-not-noticed-while-deferred",
        10,
        (Change(TRIGGER, "if before is not None and before != state:", "if False:"),),
        (
            f"{WAIT}::test_a_decision_wakes_a_worker_before_the_next_try_is_due",
            f"{WAIT}::test_a_changed_definition_of_the_trigger_wakes_a_worker",
        ),
    ),
)
