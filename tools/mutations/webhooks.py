"""Mutations of what keeps a stranger at one webhook from the callers and the results of others."""

from mutations.mutation import Change, Mutation

APP, BODY = "unit/webhook/test_app.py", "unit/webhook/test_body.py"
KEPT = "unit/core/test_kept_value.py"
SIGNATURES = "unit/webhook/test_authentication.py"
STORED = "integration/webhook/test_stored_webhooks.py"

WEBHOOKS = (
    Mutation(
        "body-read-before-the-caller-is-known",
        4,
        (Change("webhook/app.py", "            await self.callers.check_headers(definition, received)\n", ""),),
        (f"{APP}::test_no_body_is_read_of_a_caller_without_a_proof",),
    ),
    Mutation(
        "bytes-of-bodies-not-counted",
        4,
        (Change("webhook/requests.py", "if hook.body_bytes > MAX_BYTES:", "if False:"),),
        (f"{BODY}::test_a_webhook_holds_no_more_bytes_than_its_limit_and_the_bytes_of_a_request_until_its_end",),
    ),
    Mutation(
        "one-webhook-takes-every-thread",
        4,
        (Change("webhook/app.py", "hook, received, limiter=hook.threads)", "hook, received)"),),
        (f"{APP}::test_a_webhook_whose_database_hangs_takes_as_many_requests_as_may_wait_and_stops_no_other",),
    ),
    Mutation(
        "last-known-secret-counts-without-end",
        4,
        (Change("core/kept_value.py", " and now >= self._stale_until:", " and not self._values:"),),
        (f"{KEPT}::test_while_reads_fail_the_last_value_is_valid_for_a_bounded_time",),
    ),
    Mutation(
        "guessed-key-fetches-a-result",
        4,
        (Change("webhook/definition.py", " != PUBLIC and self.signature is None", " is not None"),),
        ("unit/webhook/test_definition.py::test_a_repeated_request_gets_the_output_only_from_who_sent_the_secret",),
    ),
    Mutation(
        "old-event-of-a-known-sender-accepted",
        4,
        (Change("webhook/authentication.py", "return abs(now - float(time)) <= tolerance", "return float(time) >= 0"),),
        (
            f"{SIGNATURES}::test_for_stripe_the_time_may_be_as_far_from_now_as_the_tolerance",
            f"{SIGNATURES}::test_for_slack_the_signature_is_the_one_that_slack_documents",
            f"{SIGNATURES}::test_the_time_may_be_as_far_from_now_as_the_tolerance",
        ),
    ),
    Mutation(
        "signature-of-a-known-sender-without-its-time",
        4,
        (Change("webhook/authentication.py", "hmac.new(key, found.before,", 'hmac.new(key, b"",'),),
        (
            f"{SIGNATURES}::test_for_stripe_a_signature_by_the_secret_is_accepted_and_any_other_is_not",
            f"{SIGNATURES}::test_for_slack_the_signature_is_the_one_that_slack_documents",
        ),
    ),
    Mutation(
        "removed-webhook-stays-open",
        5,
        (
            Change(
                "webhook/sql/stored_webhooks.sql", "WHERE name <> ALL (%(names)s) RETURNING", "WHERE false RETURNING"
            ),
        ),
        (
            f"{STORED}::test_the_webhooks_of_the_database_become_exactly_those_that_are_applied",
            f"{STORED}::test_a_server_follows_the_database",
        ),
    ),
    Mutation(
        "log-line-forged",
        5,
        (Change("webhook/app.py", "printable(request.url.path),", "request.url.path,"),),
        (f"{APP}::test_a_line_of_the_log_cannot_be_forged",),
    ),
    Mutation(
        "browser-sends-its-password-for-a-foreign-page",
        4,
        (
            Change(
                "webhook/app.py",
                'if isinstance(definition.authentication, Basic) and media_type != "application/json":',
                "if False:",
            ),
        ),
        (f"{APP}::test_a_browser_is_not_made_to_send_its_password_for_a_foreign_page",),
    ),
    Mutation(
        "secret-looked-up-for-a-caller-without-credentials",
        4,
        (Change("webhook/callers.py", "if missing := method.missing(received.by_name):", "if missing := None:"),),
        ("unit/webhook/test_callers.py::test_a_caller_without_credentials_is_refused_without_a_look_up",),
    ),
    Mutation(
        "token-of-another-scheme-taken",
        0,
        (Change("monitoring/api.py", 'if scheme.lower() != "bearer" or not value.strip():', "if False:"),),
        ("unit/monitoring/test_api.py::test_every_other_caller_is_refused",),
    ),
    Mutation(
        "look-ups-in-the-threads-of-others",
        4,
        (Change("core/kept_value.py", "self.read, limiter=self._limiter)", "self.read)"),),
        (f"{KEPT}::test_reads_that_hang_occupy_no_thread_that_others_use",),
    ),
)
