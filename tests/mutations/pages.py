"""Mutations of what keeps the pages from showing or changing what a user may not see or do."""

from mutations.mutation import Change, Mutation

ACCESS, PAGES = "integration/pages/test_access.py", "integration/pages/test_pages.py"
CSRF, SEARCH, TREE = "unit/pages/test_csrf.py", "unit/pages/test_search.py", "unit/pages/test_json_tree.py"
STATIC = "unit/pages/test_static_files.py"

PAGES_OF_AIRFLOW = (
    Mutation(
        "page-without-the-right-to-read",
        0,
        (
            Change(
                "pages/work_order.py",
                "    viewer.require(Right.READ, _dag_of(found))\n    return found",
                "    return found",
            ),
        ),
        (f"{ACCESS}::test_a_user_without_the_dag_reads_nothing_of_it",),
    ),
    Mutation(
        "decision-without-the-right-to-act",
        0,
        (Change("pages/resolve.py", "    actor.require(Right.ACT, dag_ids.ingest(name))\n", ""),),
        (f"{ACCESS}::test_a_user_without_the_right_changes_nothing_even_with_a_token",),
    ),
    Mutation(
        "lists-of-all-workflows",
        0,
        (Change("pages/work_orders.py", "    if len(readable) == len(workflows):", "    if True:"),),
        (f"{ACCESS}::test_lists_show_only_what_the_user_may_read",),
    ),
    Mutation(
        "form-of-another-user",
        0,
        (Change("pages/csrf.py", "issued + user_id.encode()", "issued"),),
        (f"{CSRF}::test_a_token_of_another_key_or_user_is_refused",),
    ),
    Mutation(
        "form-without-an-end",
        0,
        (Change("pages/csrf.py", "not -LIFETIME.total_seconds() < age < LIFETIME.total_seconds()", "False"),),
        (f"{CSRF}::test_a_token_of_the_user_is_accepted_until_it_is_too_old",),
    ),
    Mutation(
        "request-of-another-site",
        0,
        (Change("pages/csrf.py", '        if site != "same-origin":', "        if False:"),),
        (f"{CSRF}::test_a_request_of_another_site_is_refused",),
    ),
    Mutation(
        "token-in-the-clear",
        0,
        (Change("pages/csrf.py", "pad = token_bytes(len(content))", "pad = bytes(len(content))"),),
        (f"{CSRF}::test_two_tokens_of_one_moment_share_no_long_text",),
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
        (Change("pages/resolve.py", "        if lost and ", "        if False and "),),
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
        (Change("pages/work_orders.py", "    if wanted.is_empty and wanted.filter.since is None:", "    if False:"),),
        (f"{PAGES}::test_a_bulk_action_without_any_limit_is_refused",),
    ),
    Mutation(
        "bulk-action-on-what-comes-later",
        0,
        (Change("pages/search.py", "replace(self.filter, until=until)", "self.filter"),),
        (f"{SEARCH}::test_a_fixed_search_means_the_same_later_and_holds_nothing_newer",),
    ),
    Mutation(
        "tree-without-an-end",
        0,
        (Change("pages/json_tree.py", "        if budget.nodes <= 0:", "        if False:"),),
        (f"{TREE}::test_many_nodes_are_cut_off_and_counted",),
    ),
    Mutation(
        "foreign-script-changed",
        0,
        (Change("pages/static/vendored.json", "d6fdc75f204e6bdefa99b69bf1e6d4ac", "00000000000000000000000000000000"),),
        (f"{STATIC}::test_a_vendored_file_is_the_one_of_its_package",),
    ),
)
