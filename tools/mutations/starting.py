"""Mutations of what a person starts and sees in an Airflow with its own settings."""

from mutations.mutation import Change, Mutation

CRON, NOTIFIERS = "integration/cron/test_schedule.py", "unit/airflow/test_notifications.py"

CONTRACT = "integration/contract/test_contract.py"
PARSING = "unit/airflow/dags/test_parsing_context.py"
PLANNER, LISTENER, STARTS = (
    "integration/kafka/planning/test_planner.py",
    "integration/kafka/airflow/test_triggers.py",
    "kafka/planning/planner.py",
)

STARTING = (
    Mutation(
        "run-by-hand-taken-for-its-interval",
        1,
        (Change("cron/airflow.py", "if run.run_type in _BY_SCHEDULE and start", "if start"),),
        (
            f"{CRON}::test_a_run_by_hand_is_an_event_of_its_own",
            f"{CRON}::test_a_run_by_hand_for_the_next_interval_does_not_take_its_place",
        ),
    ),
    Mutation(
        "first-work-orders-without-the-rules-of-their-workflow",
        0,
        (
            Change(
                "core/triggers.py",
                "workflows.register_found(connection, definition.workflow, definition.found_workflow)",
                "del workflows",
            ),
        ),
        (
            f"{CONTRACT}::test_an_ordering_key_applies_from_the_first_event_on_although_the_workflow_never_ran",
            "integration/kafka/planning/test_planner.py"
            "::test_virtual_partitions_of_a_workflow_that_needs_order_are_refused_and_nothing_is_recorded",
        ),
    ),
    Mutation(
        "listener-waits-before-the-starting-offsets-are-recorded",
        1,
        (Change("kafka/airflow/triggers.py", "if refresh and await self._is_unrecorded(ends, ledger)", "if False"),),
        (f"{LISTENER}::test_a_message_that_is_sent_after_the_listener_logged_that_it_waits_is_not_skipped_by_latest",),
    ),
    Mutation(
        "younger-topic-begins-by-policy",
        1,
        (Change(STARTS, " or any(is_subscribed(name, topic) for name in subscriptions)", ""),),
        (f"{PLANNER}::test_a_topic_that_was_created_after_the_first_poll_is_read_from_its_first_offset",),
    ),
    Mutation(
        "second-of-two-first-polls-decides",
        1,
        (Change(STARTS, "if ledger.subscriptions(connection, trigger.name) != polled.subscriptions:", "if False:"),),
        (f"{PLANNER}::test_of_two_first_polls_the_one_before_the_topic_existed_decides_if_it_writes_first",),
    ),
    Mutation(
        "definition-of-an-old-wait-over-a-newer-one",
        0,
        (Change("core/workflows.py", "if known.definition is not None:", "if False:"),),
        ("integration/core/test_workflows.py::test_a_definition_that_may_be_old_is_stored_only_if_none_can_be_read",),
    ),
    Mutation(
        "task-with-the-definition-of-a-refused-file",
        2,
        (Change("airflow/dags/factories.py", "path.stem == name or token.search(text)", "path.stem == name"),),
        (f"{PARSING}::test_each_task_gets_the_dag_that_the_dag_processor_has",),
    ),
    Mutation(
        "callback-called-twice-per-stall",
        6,
        (Change("airflow/notifications.py", "if callback and alert.cleared:", "if False:"),),
        (f"{NOTIFIERS}::test_an_ordinary_callback_gets_the_tasks_context_once_per_stall_and_not_at_its_end",),
    ),
)
