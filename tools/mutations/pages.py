"""Mutations of the pages: of rights, of what the pages ask of the core, and of their script and style."""

from mutations.mutation import Change, Mutation

ACCESS, PAGES = "integration/pages/test_access.py", "integration/pages/test_pages.py"
CSRF = "unit/pages/test_forms.py"
STATIC = "unit/pages/test_static_files.py"

PAGES_OF_AIRFLOW = (
    Mutation(
        "action-without-the-right-to-read",
        0,
        (Change("pages/access.py", "dict.fromkeys((Right.READ, right))", "(right,)"),),
        (f"{ACCESS}::test_whoever_may_not_read_a_dag_acts_on_nothing_of_it",),
    ),
    Mutation(
        "results-of-steps-without-the-right-to-read-inputs",
        0,
        (Change("pages/templates/macros.html", "{% if reads_results %}{{ step.result", "{% if true %}{{ step.result"),),
        (f"{ACCESS}::test_results_of_steps_are_shown_only_to_those_who_may_read_outputs",),
    ),
    Mutation(
        "page-without-the-right-to-read",
        0,
        (
            Change(
                "pages/work_order.py",
                "        viewer.require(Right.READ, dag_id)\n        attempts",
                "        attempts",
            ),
        ),
        (f"{ACCESS}::test_a_user_without_the_one_right_to_the_one_dag_is_refused",),
    ),
    Mutation(
        "decision-without-the-right-to-act",
        0,
        (Change("pages/resolve.py", "    action.viewer.require(Right.ACT, dag_ids.ingest(name))\n", ""),),
        (f"{ACCESS}::test_a_user_without_the_one_right_to_the_one_dag_is_refused",),
    ),
    Mutation(
        "purge-by-the-right-to-release",
        0,
        (
            Change(
                "pages/outbox.py",
                "    action.viewer.require(Right.PURGE, dag_ids.OUTBOX)",
                "    action.viewer.require(Right.RELEASE, dag_ids.OUTBOX)",
            ),
        ),
        (f"{ACCESS}::test_a_viewer_learns_which_right_an_action_takes_and_the_other_roles_have_it",),
    ),
    Mutation(
        "lists-of-all-workflows",
        0,
        (Change("pages/work_orders.py", "    if set(selected) <= set(readable):", "    if True:"),),
        (f"{ACCESS}::test_lists_show_only_what_the_user_may_read",),
    ),
    Mutation(
        "work-orders-of-a-trigger-read-by-the-right-to-its-present-workflow",
        0,
        (
            Change(
                "pages/search.py",
                "    if wanted.selected is not None:\n        return work_orders.list",
                "    if wanted.trigger is not None:\n"
                "        from workorders.core import triggers\n"
                "        return [triggers.find(connection, wanted.trigger).workflow]\n"
                "    if wanted.selected is not None:\n        return work_orders.list",
            ),
        ),
        (f"{ACCESS}::test_a_trigger_that_changed_its_workflow_shows_no_work_order_of_the_old_one",),
    ),
    Mutation(
        "form-of-another-user",
        0,
        (Change("pages/forms.py", "    if owner != user_id:", "    if owner is None:"),),
        (f"{CSRF}::test_a_token_of_another_key_or_user_is_refused",),
    ),
    Mutation(
        "form-without-an-end",
        0,
        (Change("pages/forms.py", "max_age=LIFETIME_SECONDS", "max_age=None"),),
        (f"{CSRF}::test_a_token_of_the_user_is_accepted_until_it_is_too_old",),
    ),
    Mutation(
        "request-of-another-site",
        0,
        (Change("pages/forms.py", '        if site != "same-origin":', "        if False:"),),
        (f"{CSRF}::test_a_request_of_another_site_is_refused",),
    ),
    Mutation(
        "decision-that-nobody-saw",
        10,
        (Change("pages/resolve.py", "        if _facts(decisions) != facts:", "        if False:"),),
        (f"{PAGES}::test_what_has_moved_since_the_preview_is_not_decided",),
    ),
    Mutation(
        "loss-without-its-number",
        10,
        (Change("pages/resolve.py", "        if lost := given_up(decisions):", "        if False:"),),
        (f"{PAGES}::test_a_stall_is_resolved_after_a_preview_with_a_reason_and_the_number_that_is_lost",),
    ),
    Mutation(
        "pages-not-escaped",
        0,
        (Change("pages/rendering.py", "        autoescape=True,", "        autoescape=False,"),),
        (f"{PAGES}::test_a_hostile_input_is_text_and_nothing_else",),
    ),
    Mutation(
        "change-that-is-not-recorded",
        0,
        (Change("pages/site.py", "        self.site.write_audit_log(", "        (lambda *_: None)("),),
        (f"{PAGES}::test_each_change_is_recorded_with_its_user_and_its_dag_before_it_is_made",),
    ),
    Mutation(
        "batch-for-those-who-may-not-read-it",
        0,
        (Change("pages/work_order.py", "reads_batch = found.trigger is not None and ", "reads_batch = True or "),),
        (f"{ACCESS}::test_a_work_order_names_its_batch_only_to_those_who_may_read_the_trigger",),
    ),
    Mutation(
        "time-without-a-message-reads-all-again",
        10,
        (Change("kafka/recovery/resolution.py", "log.last_stable if (offset", "log.log_start if (offset"),),
        ("integration/kafka/recovery/test_resolution.py::test_a_time_is_its_first_message_or_the_end",),
    ),
    Mutation(
        "foreign-script-changed",
        0,
        (Change("pages/static/vendored.json", "d6fdc75f204e6bdefa99b69bf1e6d4ac", "00000000000000000000000000000000"),),
        (f"{STATIC}::test_a_vendored_file_is_the_one_of_its_package",),
    ),
    Mutation(
        "errors-for-those-who-may-not-read-inputs",
        0,
        (Change("pages/access.py", "return record if unless else replace(", "return record if True else replace("),),
        (
            f"{ACCESS}::"
            "test_a_user_who_may_read_neither_inputs_nor_logs_sees_nothing_that_a_message_or_a_function_has_filled",
        ),
    ),
    Mutation(
        "work-orders-of-an-unknown-dag-for-every-team",
        0,
        (Change("airflow/api_server.py", "if has_teams and DagModel.get_current(dag_id) is None:", "if False:"),),
        (f"{ACCESS}::test_with_teams_no_user_has_a_right_to_a_dag_that_airflow_does_not_know",),
    ),
    Mutation(
        "writer-defines-who-may-call-a-webhook",
        5,
        (
            Change(
                "core/sql/schema.sql",
                "workorders.alembic_version, workorders.webhooks FROM",
                "workorders.alembic_version FROM",
            ),
        ),
        ("integration/core/test_roles.py::test_the_writer_cannot_define_who_may_call_a_webhook",),
    ),
)
