"""The breaker: a range with too many rejected messages is not recorded, because its configuration is likely wrong."""

from collections import Counter
from collections.abc import Iterable, Iterator

from workorders.core.creation.work_orders import Created
from workorders.core.items import Item
from workorders.kafka.exceptions import TooManyRejectedError
from workorders.kafka.ingest.attempt import Attempt

MIN_REJECTED = 10
"""Minimum of rejected messages in a range at which the breaker trips: a quiet partition has one or two messages per
batch, and one bad message would be too large a share."""
_REFUSED_BY_POSTGRES = "refused-by-postgres"


class Breaker:
    """Counts the rejected messages of one range while they pass."""

    def __init__(self, attempt: Attempt, max_share: float) -> None:
        self._attempt = attempt
        self._max_share = max_share
        self._messages = 0
        self._reasons: Counter[str] = Counter()

    def watch(self, items: Iterable[Item]) -> Iterator[Item]:
        """Pass items on.

        Raises:
            TooManyRejectedError: the limit is exceeded regardless of the remaining messages.
        """
        range_ = self._attempt.range
        for item in items:
            self._messages += 1
            if item.rejection is not None:
                self._reasons[item.rejection.code] += 1
                self._require_share(range_.end - range_.start)
            yield item

    def require_within_share(self, created: Created) -> None:
        """Check the whole range, with the messages that Postgres refused after our own checks accepted them.

        Raises:
            TooManyRejectedError: the caller must roll back.
        """
        refused = created.rejected - created.rejected_by_rule - self._reasons.total()
        if refused > 0:
            self._reasons[_REFUSED_BY_POSTGRES] += refused
        self._require_share(self._messages)

    def _require_share(self, messages: int) -> None:
        """Raise if the rejected messages exceed the share of so many messages."""
        rejected = self._reasons.total()
        if rejected < MIN_REJECTED or rejected <= self._max_share * messages:
            return
        ((code, count),) = self._reasons.most_common(1)
        raise TooManyRejectedError(
            f"{self._attempt.trigger.name}: {self._attempt.range}: {rejected} of {self._messages} messages read "
            f"({rejected / self._messages:.0%}) were rejected, {count} of them as {code}, which is more than "
            f"max_rejected_share ({self._max_share:g}) allows. The range was rolled back, and nothing was committed "
            f"there. Check that the trigger reads the right topic in the right form. To record them as rejected, raise "
            f"or remove max_rejected_share in the trigger's file and clear the task."
        )
