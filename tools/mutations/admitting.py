"""Mutations of what holds an event to its idempotency key, its sequence and the limits of its workflow."""

from mutations.mutation import Change, Mutation

KEYS, LIMITS = "integration/core/admission/test_idempotency.py", "integration/core/admission/test_limits.py"
KEYS_SQL, SINGLE = "core/admission/sql/idempotency.sql", "integration/core/creation/test_create_one.py"

ADMISSION = (
    Mutation(
        "idempotency-keys-taken-in-any-order",
        2,
        (
            Change(
                "core/admission/idempotency.py",
                "    for place in range(0, len(first), _KEYS_A_STEP):",
                "    __import__('random').shuffle(first)\n    for place in range(0, len(first), _KEYS_A_STEP):",
            ),
        ),
        (f"{KEYS}::test_many_transactions_that_share_keys_never_wait_in_a_circle",),
    ),
    Mutation(
        "restored-original-taken-for-its-own-duplicate",
        2,
        (Change(KEYS_SQL, " OR (stored.stream_id, stored.position) = (EXCLUDED.stream_id, EXCLUDED.position)", ""),),
        (f"{KEYS}::test_a_replay_that_restores_the_original_does_not_make_it_a_duplicate_of_itself",),
    ),
    Mutation(
        "key-taken-meanwhile-ends-the-batch",
        2,
        (
            Change(
                "core/admission/idempotency.py",
                "        return False\n    return True",
                "        raise\n    return True",
            ),
        ),
        (f"{KEYS}::test_of_two_transactions_at_once_the_second_waits_for_the_first",),
    ),
    Mutation(
        "key-kept-by-what-was-turned-away",
        1,
        (Change("core/admission/idempotency.py", "for part in state.rejections if", "for part in () if"),),
        (f"{LIMITS}::test_what_found_no_room_may_come_again",),
    ),
    Mutation(
        "callers-key-released-by-a-rejection",
        2,
        (Change("core/admission/idempotency.py", "if not self._settings.is_of_caller:", "if True:"),),
        (f"{SINGLE}::test_a_key_stays_with_a_work_order_that_a_limit_rejects",),
    ),
    Mutation(
        "callers-key-passed-over-by-a-rejected-event",
        2,
        (Change("core/admission/idempotency.py", "(item.body is not None or of_caller)", "item.body is not None"),),
        (f"{SINGLE}::test_a_rejected_event_and_its_repeat_at_once_leave_one_rejected_work_order",),
    ),
    Mutation(
        "numbered-repeat-ignored",
        2,
        (
            Change(
                "core/admission/idempotency.py",
                'self.on_duplicate == "ignore" and position is None',
                'self.on_duplicate == "ignore"',
            ),
        ),
        (f"{SINGLE}::test_a_repeat_with_a_position_is_never_ignored",),
    ),
    Mutation(
        "limit-counted-without-its-lock",
        4,
        (
            Change(
                "core/admission/limits.py", 'connection.execute(_QUERIES["lock_count"]', 'str(_QUERIES["lock_count"]'
            ),
        ),
        (f"{LIMITS}::test_who_comes_second_waits_and_finds_less_room",),
    ),
)
