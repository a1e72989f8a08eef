"""Errors between Kafka and the ledger."""

from collections.abc import Mapping
from typing import Self

from workorders.core.exceptions import ConfigurationError, WorkOrdersError


class KafkaUnavailableError(WorkOrdersError):
    """No broker answered in time; a later retry may succeed."""

    error_code = "WO-KAFKA-UNAVAILABLE"


class CoordinatorMovingError(KafkaUnavailableError):
    """A consumer group has no coordinator yet, as with the first group of a broker; it has one a moment later."""


class KafkaRefusedError(ConfigurationError):
    """The cluster refused the client (credentials, certificate, permission); a retry alone does not help."""

    error_code = "WO-KAFKA-REFUSED"


class ClientSettingsError(ConfigurationError):
    """A Kafka client cannot start with its settings: a wrong path, an unknown setting, a login that is not built in."""

    error_code = "WO-KAFKA-SETTINGS"

    @classmethod
    def because(cls, settings: Mapping[str, object], reason: str, to_do: str = "Correct the connection.") -> Self:
        """Return the error for a reason, which has no secret and no full stop."""
        return cls(
            f"Kafka at {settings.get('bootstrap.servers', 'an unnamed address')} was not asked, because its client "
            f"cannot start with the settings of the Airflow Kafka connection: {reason}. {to_do}"
        )


class TopicForbiddenError(KafkaRefusedError):
    """The client may not describe a topic; other topics are not affected."""


class UnknownTopicError(WorkOrdersError):
    """A topic that a trigger names is not in the cluster."""

    error_code = "WO-TOPIC-UNKNOWN"


class GroupCommitError(WorkOrdersError):
    """The consumer group's offsets could not be committed; the ledger does not depend on them."""

    error_code = "WO-GROUP-COMMIT"


class UnknownBatchError(WorkOrdersError, LookupError):
    """There is no batch of that number."""

    error_code = "WO-BATCH-UNKNOWN"


class ForeignBatchError(WorkOrdersError):
    """A batch belongs to another trigger than the task; no retry can help."""

    error_code = "WO-BATCH-FOREIGN"


class RegistryError(WorkOrdersError):
    """The schema registry did not answer, or refused the client."""


class RegistryUnavailableError(RegistryError):
    """The schema registry did not answer; a later retry may succeed."""

    error_code = "WO-REGISTRY-UNAVAILABLE"


class RegistryRefusedError(RegistryError, ConfigurationError):
    """The schema registry refused the client's login; a retry alone does not help."""

    error_code = "WO-REGISTRY-REFUSED"


class StalledError(WorkOrdersError):
    """Ranges of a batch could not be ingested now; the text has one sentence per range."""


class SparkServerError(WorkOrdersError):
    """A Spark Connect server did not answer, or lost a query; the ledger alone knows what was committed."""

    error_code = "WO-SPARK-SERVER"


class RangeError(WorkOrdersError):
    """An error of one range, such as one of Kafka's; nothing of it was committed. Other ranges are not affected."""


class BatchExpiredError(RangeError):
    """Retention may have deleted work orders of the batch, so that a replay would create them again."""

    error_code = "WO-BATCH-EXPIRED"


class FencedError(RangeError):
    """A newer attempt took over; this one changed nothing and must not be retried."""

    error_code = "WO-FENCED"


class LedgerConflictError(RangeError):
    """The ledger is inside the range, which no order of events allows; a person must look."""

    error_code = "WO-LEDGER-CONFLICT"


class AnotherClusterError(RangeError):
    """The Airflow Kafka connection leads to another cluster than the one that the ledger follows."""

    error_code = "WO-KAFKA-CLUSTER"

    @classmethod
    def of(cls, subject: object, expected: str, found: str) -> Self:
        """Return the error for a range or a trigger, with the ids of both clusters."""
        return cls(
            f"{subject}: the Airflow Kafka connection leads to another cluster, {found}, and the ledger follows "
            f"{expected}. Nothing was read or committed there. Correct the connection, or move the trigger: see "
            f"docs/how-to/operate/resolve-data-loss."
        )


class DataLostError(RangeError):
    """Kafka no longer has messages that have no work order."""

    error_code = "WO-DATA-LOST"


class TopicRecreatedError(RangeError):
    """The topic was deleted and re-created, so its offsets mean other messages now."""

    error_code = "WO-TOPIC-RECREATED"


class DecisionRefusedError(WorkOrdersError):
    """An operator's decision does not apply, or cannot be made now; nothing was changed."""

    error_code = "WO-DECISION-REFUSED"


class DecisionUncertainError(WorkOrdersError):
    """The database became unavailable while a decision was committed: it was made, or it was not."""

    error_code = "WO-DECISION-UNCERTAIN"


class IncompleteReadError(RangeError):
    """The reader ended before the end of the range."""

    error_code = "WO-READ-INCOMPLETE"


class UnexpectedMessageError(RangeError):
    """The reader delivered a message from outside the range or out of order."""

    error_code = "WO-READ-UNEXPECTED"


class WorkflowFullError(RangeError):
    """A limit of the workflow is reached: the range waits until there is capacity for all of it."""

    error_code = "WO-WORKFLOW-FULL"


class TooManyRejectedError(RangeError):
    """More of a range was rejected than the trigger allows, so its reader is more likely wrong than its messages."""

    error_code = "WO-TOO-MANY-REJECTED"
