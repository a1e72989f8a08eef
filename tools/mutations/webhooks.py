"""Mutations of what keeps a stranger at one webhook from the callers and the results of others."""

from mutations.mutation import Change, Mutation

APP, RECEIVING = "unit/webhook/test_app.py", "unit/webhook/test_capacity.py"
CALLERS, SECRETS = "unit/webhook/test_callers.py", "unit/webhook/test_secrets.py"
DEFINITION, SIGNATURES = "unit/webhook/test_definition.py", "unit/webhook/test_hmac_signature.py"
SENDERS, STORED = "unit/webhook/test_sender_signatures.py", "integration/webhook/test_stored_webhooks.py"

WEBHOOKS = (
    Mutation(
        "body-read-before-the-caller-is-known",
        4,
        (Change("webhook/app.py", "            await self._callers.check_headers(definition, received)\n", ""),),
        (f"{APP}::test_no_body_is_read_of_a_caller_without_a_proof",),
    ),
    Mutation(
        "old-bodies-keep-their-places",
        4,
        (
            Change("webhook/capacity.py", "            self._drop(own[0])", "            pass"),
            Change("webhook/capacity.py", "if self._gives_way else None", "if False else None"),
        ),
        (
            f"{RECEIVING}::test_the_oldest_body_of_an_unknown_sender_makes_room_for_a_new_one",
            f"{RECEIVING}::test_an_address_with_many_bodies_loses_its_own_oldest_and_no_other",
        ),
    ),
    Mutation(
        "bytes-in-flight-not-counted",
        4,
        (Change("webhook/capacity.py", "while self._bytes + size > self._share:", "while False:"),),
        (f"{RECEIVING}::test_no_more_bytes_are_held_than_the_webhooks_share",),
    ),
    Mutation(
        "trickling-body-waited-for",
        4,
        (
            Change(
                "webhook/capacity.py",
                "self._limit.reschedule(began + min(earned, MAX_SECONDS))",
                "self._limit.reschedule(loop.time() + earned)",
            ),
        ),
        (f"{RECEIVING}::test_a_caller_that_sends_nothing_or_too_little_is_refused",),
    ),
    Mutation(
        "one-webhook-takes-every-thread",
        4,
        (Change("webhook/threads.py", "size // _PARTS", "10 * size"),),
        ("unit/webhook/test_threads.py::test_a_webhook_whose_database_hangs_leaves_threads_to_the_others",),
    ),
    Mutation(
        "failed-look-up-not-remembered",
        4,
        (
            Change(
                "webhook/secrets.py",
                "type(error).__name__)\n            known.ask_at = self._clock() + FAILURE_SECONDS",
                "type(error).__name__)",
            ),
        ),
        (f"{SECRETS}::test_after_a_failure_no_look_up_follows_for_some_seconds",),
    ),
    Mutation(
        "last-known-secret-counts-without-end",
        4,
        (Change("webhook/secrets.py", " and self._clock() - known.had_at < LAST_KNOWN_SECONDS", ""),),
        (f"{SECRETS}::test_while_the_backend_is_unavailable_the_last_known_secret_counts_for_a_bounded_time",),
    ),
    Mutation(
        "guesses-not-limited",
        4,
        (Change("webhook/callers.py", "if now < peer.retry_at and now >= peer.trusted_until:", "if False:"),),
        (f"{CALLERS}::test_an_address_that_guesses_is_told_to_wait_and_others_are_not",),
    ),
    Mutation(
        "stranger-behind-a-proxy-locks-callers-out",
        4,
        (Change("webhook/callers.py", " and now >= peer.trusted_until:", ":"),),
        (f"{CALLERS}::test_a_stranger_at_the_address_of_valid_callers_does_not_lock_them_out",),
    ),
    Mutation(
        "guessed-key-fetches-a-result",
        4,
        (
            Change("webhook/app.py", "received.key is not None and not definition.proves_key():", "False:"),
            Change("webhook/definition.py", "if authentication == PUBLIC:", "if False:"),
        ),
        (
            f"{APP}::test_a_webhook_that_answers_with_results_takes_no_key_that_any_caller_could_have_made_up",
            f"{DEFINITION}::test_a_public_webhook_does_not_answer_with_the_result_of_another_callers_event",
        ),
    ),
    Mutation(
        "path-and-headers-not-signed",
        4,
        (Change("webhook/hmac_signature.py", "if self.signed_headers is None:", "if True:"),),
        (f"{SIGNATURES}::test_path_and_headers_are_signed_a_line_each_before_the_body",),
    ),
    Mutation(
        "old-event-of-a-known-sender-accepted",
        4,
        (Change("webhook/method.py", "return abs(now - float(time)) <= tolerance", "return float(time) >= 0"),),
        (
            f"{SENDERS}::test_for_stripe_the_time_may_be_as_far_from_now_as_the_tolerance",
            f"{SENDERS}::test_for_slack_the_signature_is_the_one_that_slack_documents",
            f"{SIGNATURES}::test_the_time_may_be_as_far_from_now_as_the_tolerance",
        ),
    ),
    Mutation(
        "signature-of-a-known-sender-without-its-time",
        4,
        (
            Change(
                "webhook/sender_signatures.py", "secret.password.encode(), before,", 'secret.password.encode(), b"",'
            ),
        ),
        (
            f"{SENDERS}::test_for_stripe_a_signature_by_the_secret_is_accepted_and_any_other_is_not",
            f"{SENDERS}::test_for_slack_the_signature_is_the_one_that_slack_documents",
        ),
    ),
    Mutation(
        "previous-secret-forgotten",
        4,
        (Change("webhook/method.py", "(self.connection, self.previous_connection)", "(self.connection,)"),),
        (f"{CALLERS}::test_two_secrets_are_accepted_while_callers_change_to_the_new_one",),
    ),
    Mutation(
        "valid-caller-called-wrong-while-a-secret-is-unavailable",
        4,
        (
            Change(
                "webhook/callers.py",
                "        if unavailable is not None:\n            raise unavailable\n        return faults[0]",
                "        return next(iter(faults), 'unknown')",
            ),
        ),
        (f"{CALLERS}::test_a_caller_is_not_called_wrong_while_the_secret_that_it_may_have_is_unavailable",),
    ),
    Mutation(
        "removed-webhook-stays-open",
        5,
        (Change("webhook/sql/webhooks.sql", "WHERE name <> ALL (%(names)s) RETURNING", "WHERE false RETURNING"),),
        (
            f"{STORED}::test_the_webhooks_of_the_database_become_exactly_those_that_are_applied",
            f"{STORED}::test_a_server_without_trigger_files_follows_the_database",
        ),
    ),
    Mutation(
        "changed-webhook-not-noticed",
        5,
        (Change("webhook/hooks.py", "if stamps != self._stamps:", "if self._stamps is None:"),),
        (f"{STORED}::test_a_server_without_trigger_files_follows_the_database",),
    ),
    Mutation(
        "log-line-forged",
        5,
        (Change("webhook/refusals.py", "            printable(path),", "            path,"),),
        (f"{APP}::test_a_line_of_the_log_cannot_be_forged",),
    ),
    Mutation(
        "every-refusal-logged",
        5,
        (
            Change(
                "webhook/refusals.py",
                "            self._sums[key].suppressed += 1\n            return\n",
                "            pass\n",
            ),
        ),
        (
            "unit/webhook/test_refusals.py::test_the_first_refusal_of_a_kind_is_logged_at_once_and_the_others_are_summed",
        ),
    ),
    Mutation(
        "browser-sends-its-password-for-a-foreign-page",
        4,
        (
            Change(
                "webhook/app.py", 'if definition.requires_json_type and media_type != "application/json":', "if False:"
            ),
        ),
        (f"{APP}::test_a_browser_is_not_made_to_send_its_password_for_a_foreign_page",),
    ),
)
