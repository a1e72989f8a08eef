"""Mutations of how clients log in to Postgres, and of what a session must have."""

from mutations.mutation import Change, Mutation

LIMITS = "integration/core/postgres/test_session_limits.py"
TOKENS, CERTIFICATES = (
    "integration/core/postgres/test_login_tokens.py",
    "integration/core/postgres/test_certificates.py",
)

POSTGRES_LOGINS = (
    Mutation(
        "session-without-limits-used",
        4,
        (Change("core/postgres/session_limits.py", "    if has_mark or not missing:\n", "    if True:\n"),),
        (f"{LIMITS}::test_without_limits_on_the_role_no_session_is_used_and_the_error_has_what_to_run",),
    ),
    Mutation(
        "token-used-for-a-second-connection",
        5,
        (Change("core/postgres/login_tokens.py", "    if not has_token(text):\n", "    if True:\n"),),
        (f"{TOKENS}::test_the_triggerers_pool_asks_for_each_of_its_connections",),
    ),
    Mutation(
        "certificate-stays-a-file-of-the-worker",
        5,
        (
            Change(
                "core/postgres/certificates.py",
                "_replaced(text, _read, lambda value: not value.startswith(_TEXT) and",
                "_replaced(text, _read, lambda value: False and",
            ),
        ),
        (f"{CERTIFICATES}::test_files_of_the_worker_travel_as_texts",),
    ),
)
