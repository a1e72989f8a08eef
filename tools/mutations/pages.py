"""Mutations of the pages: of rights, of what the pages ask of the core, and of their script and style."""

from mutations.mutation import Change, Mutation

ACCESS, PAGES = "integration/pages/test_access.py", "integration/pages/test_pages.py"
CSRF, SEARCH = "unit/pages/test_forms.py", "unit/pages/test_search.py"
WORKLOAD = "integration/core/history/test_workload.py"
STATIC, BROWSER = "unit/pages/test_static_files.py", "integration/pages/test_in_browser.py"
EXPORT = "integration/core/history/test_export.py"

PAGES_OF_AIRFLOW = (
    Mutation(
        "form-whose-answer-is-sent-again-by-a-reload",
        0,
        (
            Change(
                "pages/resolve.py", "if applied.warnings else address, 303)", "if applied.warnings else address, 307)"
            ),
        ),
        (f"{PAGES}::test_a_stall_is_resolved_after_a_preview_with_a_reason_and_the_number_that_is_lost",),
    ),
    Mutation(
        "action-without-the-right-to-read",
        0,
        (Change("pages/access.py", "dict.fromkeys((Right.READ, right))", "(right,)"),),
        (f"{ACCESS}::test_whoever_may_not_read_a_dag_acts_on_nothing_of_it",),
    ),
    Mutation(
        "export-that-is-cut-off-without-a-word",
        0,
        (Change("pages/downloads.py", "        yield export.cut_off(", "        _ = export.cut_off("),),
        (f"{PAGES}::test_an_export_that_is_cut_off_ends_with_a_line_that_says_so",),
    ),
    Mutation(
        "place-of-a-browser-that-left-is-kept",
        0,
        (Change("pages/downloads.py", "        _FREE.release()", "        pass"),),
        (f"{PAGES}::test_browsers_that_take_an_export_slowly_leave_the_pages_and_each_other_alone",),
    ),
    Mutation(
        "download-within-a-transaction",
        4,
        (
            Change(
                "core/history/export.py",
                "            lines.seek(0)\n            while part",
                "            connection.execute('SELECT 1')\n            lines.seek(0)\n            while part",
            ),
        ),
        (f"{EXPORT}::test_no_transaction_is_open_while_the_caller_has_a_part_and_later_work_orders_are_left_out",),
    ),
    Mutation(
        "rerun-that-counts-erased-inputs",
        0,
        (Change("core/history/sql/work_orders.sql", ") IS NOT TRUE;", ") IS NULL AND false;"),),
        (f"{PAGES}::test_a_rerun_says_how_many_have_no_input_any_more_and_skips_them",),
    ),
    Mutation(
        "results-of-steps-without-the-right-to-read-inputs",
        0,
        (Change("pages/templates/macros.html", "{% if reads_results %}{{ step.result", "{% if true %}{{ step.result"),),
        (f"{ACCESS}::test_results_of_steps_are_shown_only_to_those_who_may_read_outputs",),
    ),
    Mutation(
        "choice-of-the-start-that-is-ignored",
        0,
        (Change("pages/bulk.py", 'if kind == "rerun" and from_start else {}', "if False else {}"),),
        (f"{PAGES}::test_a_lost_work_order_shows_its_finished_steps_and_continues_or_starts_again",),
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
        (Change("pages/resolve.py", "    actor.require(Right.ACT, dag_ids.ingest(name))\n", ""),),
        (f"{ACCESS}::test_a_user_without_the_one_right_to_the_one_dag_is_refused",),
    ),
    Mutation(
        "decision-by-the-right-to-another-dag",
        0,
        (
            Change(
                "pages/resolve.py",
                "    actor.require(Right.ACT, dag_ids.ingest(name))",
                "    actor.require(Right.ACT, dag_ids.listener(name))",
            ),
        ),
        (f"{ACCESS}::test_a_user_without_the_one_right_to_the_one_dag_is_refused",),
    ),
    Mutation(
        "purge-by-the-right-to-release",
        0,
        (
            Change(
                "pages/outbox.py",
                "    actor.require(Right.PURGE, dag_ids.OUTBOX)",
                "    actor.require(Right.RELEASE, dag_ids.OUTBOX)",
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
                "pages/selection.py",
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
        "token-that-repeats",
        0,
        (Change("pages/forms.py", "[user_id, token_hex(8)]", '[user_id, ""]'),),
        (f"{CSRF}::test_two_tokens_of_one_moment_have_other_signatures",),
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
        "bulk-action-without-a-limit",
        0,
        (Change("pages/bulk.py", "wanted.is_empty and wanted.filter.since is None:", "False:"),),
        (f"{PAGES}::test_a_bulk_action_without_any_limit_is_refused",),
    ),
    Mutation(
        "bulk-action-on-what-comes-later",
        0,
        (Change("pages/search.py", "replace(self.filter, until=until)", "self.filter"),),
        (f"{SEARCH}::test_a_fixed_search_means_the_same_later_and_holds_nothing_newer",),
    ),
    Mutation(
        "input-without-an-end",
        0,
        (Change("pages/templates/macros.html", "{{ text[:65536] | visible }}", "{{ text | visible }}"),),
        (f"{PAGES}::test_a_large_input_is_shown_by_its_beginning_and_without_its_ordering_key",),
    ),
    Mutation(
        "change-that-is-not-recorded",
        0,
        (Change("pages/site.py", "        self.record_change(", "        (lambda change: None)("),),
        (f"{PAGES}::test_each_change_is_recorded_with_its_user_and_its_dag_before_it_is_made",),
    ),
    Mutation(
        "open-batch-without-its-number",
        0,
        (Change("pages/forms.py", " != str(number):", " is None:"),),
        (f"{PAGES}::test_a_person_decides_whether_the_open_batch_of_a_shard_is_in_kafka",),
    ),
    Mutation(
        "purge-without-its-number",
        0,
        (
            Change(
                "pages/outbox.py",
                '        require_number(typed, hold.messages, where=f"Hold {number}", counted="its messages")\n',
                "",
            ),
        ),
        (f"{PAGES}::test_held_messages_are_purged_after_their_number_was_typed",),
    ),
    Mutation(
        "confirmation-of-what-was-not-decided",
        0,
        (Change("pages/outbox.py", "    return None if number in ", "    return None if not "),),
        (f"{PAGES}::test_the_outbox_confirms_what_was_decided_about_a_hold_and_nothing_that_was_not",),
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
        "focus-lost-by-an-update",
        0,
        (Change("pages/static/pages.js", "      giveFocus();\n", ""),),
        (f"{BROWSER}::test_an_update_leaves_the_focus_where_it_is",),
    ),
    Mutation(
        "update-that-undoes-what-was-begun",
        0,
        (Change("pages/static/pages.js", "=== live() && isBusyHere()", "=== null"),),
        (f"{BROWSER}::test_an_update_on_its_way_does_not_undo_what_a_person_began",),
    ),
    Mutation(
        "early-ticks-that-do-not-count",
        0,
        (Change("pages/static/pages.js", '"[data-selection]").forEach(showSelection)', '"[data-selection]")'),),
        (f"{BROWSER}::test_boxes_ticked_before_the_script_came_are_counted",),
    ),
    Mutation(
        "updates-after-a-lost-login",
        0,
        (Change("pages/static/pages.js", "isOver = status === 401 || status === 403;", "isOver = false;"),),
        (f"{BROWSER}::test_a_failed_update_is_named_until_one_succeeds_and_none_follows_a_lost_login",),
    ),
    Mutation(
        "focus-that-nobody-sees",
        0,
        (Change("pages/static/pages.css", ":focus-visible { outline: 2px solid", ":focus-visible { outline: 0 solid"),),
        (f"{BROWSER}::test_tab_leads_to_everything_that_acts_and_shows_where_it_is",),
    ),
    Mutation(
        "text-that-is-hard-to-read",
        0,
        (Change("pages/static/pages.css", "--muted: oklch(0.45 0.055 251);", "--muted: oklch(0.75 0.025 252);"),),
        (f"{BROWSER}::test_no_page_breaks_a_rule_of_accessibility",),
    ),
    Mutation(
        "keys-of-sequences-without-the-right-to-read-inputs",
        0,
        (
            Change(
                "pages/workflow.py",
                "        reads_input=viewer.may(Right.READ_INPUT, dag_id),",
                "        reads_input=True,",
            ),
        ),
        (f"{PAGES}::test_a_gap_in_a_sequence_is_on_the_page_of_its_workflow_and_of_each_parked_work_order",),
    ),
    Mutation(
        "problems-that-no-number-counts",
        0,
        (Change("pages/templates/overview.html", "needs | length - max_needs", "max_needs"),),
        (f"{PAGES}::test_the_overview_counts_all_that_needs_a_person_and_shows_the_worst",),
    ),
    Mutation(
        "failures-of-one-workflow-hide-those-of-another",
        0,
        (
            Change(
                "core/history/sql/workload.sql",
                "WHERE workflow_id = workflows.id AND state IN",
                "WHERE state IN",
            ),
        ),
        (f"{WORKLOAD}::test_each_workflow_counts_to_the_bound_for_itself",),
    ),
    Mutation(
        "replay-for-those-who-may-not",
        0,
        (Change("pages/kafka_trigger.py", "may_replay=viewer.may(Right.REPLAY, dag_id)", "may_replay=True"),),
        (f"{PAGES}::test_the_tab_leads_to_what_was_rejected_and_to_the_task_whose_clear_replays_the_batch",),
    ),
    Mutation(
        "refused-form-without-a-way-back",
        0,
        (Change("pages/app.py", 'is_page = request.method == "GET"', "is_page = True"),),
        (f"{BROWSER}::test_a_form_that_is_refused_leads_back_to_its_page",),
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
                "core/sql/roles.sql",
                "workorders.alembic_version, workorders.webhooks FROM",
                "workorders.alembic_version FROM",
            ),
        ),
        ("integration/core/test_roles.py::test_the_writer_cannot_define_who_may_call_a_webhook",),
    ),
)
