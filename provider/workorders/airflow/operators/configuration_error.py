"""The operator in place of a file with a mistake."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context


class ConfigurationErrorOperator(BaseOperator):
    """Fails with the mistake of a file; a further try would only fail again."""

    def __init__(self, *, sentence: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sentence = sentence

    def execute(self, context: "Context") -> None:
        """Fail.

        Raises:
            AirflowFailException: always.
        """
        raise AirflowFailException(self.sentence)
