"""Rights in Kafka of a user who has none but those that a test gives."""

from functools import partial
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)

from local_stack.stack import LocalStack
from local_stack.waiting import wait_until

_SECONDS = 30.0


class Rights:
    """What the limited user may do."""

    def __init__(self, stack: LocalStack) -> None:
        self._admin = AdminClient(dict(stack.kafka_settings))
        self._given: list[AclBinding] = []

    def give(self, kind: Any, name: str, *operations: Any) -> None:
        """Allow operations on what has this name."""
        for operation in operations:
            binding = _binding(AclBinding, kind, name, operation)
            for future in self._admin.create_acls([binding]).values():
                future.result(_SECONDS)
            self._given.append(binding)
            assert wait_until(partial(self._has, kind, name, operation), seconds=_SECONDS)

    def take(self, kind: Any, name: str, operation: Any) -> None:
        """Take a right away."""
        wanted = _binding(AclBindingFilter, kind, name, operation)
        for future in self._admin.delete_acls([wanted]).values():
            future.result(_SECONDS)
        assert wait_until(lambda: not self._has(kind, name, operation), seconds=_SECONDS)

    def take_all(self) -> None:
        """Take all rights away."""
        for binding in self._given:
            self.take(binding.restype, binding.name, binding.operation)

    def _has(self, kind: Any, name: str, operation: Any) -> bool:
        """Return whether the broker knows of a right; it learns of a change after the controller has answered."""
        wanted = _binding(AclBindingFilter, kind, name, operation)
        return bool(self._admin.describe_acls(wanted).result(_SECONDS))


def _binding(kind_of_binding: Any, kind: Any, name: str, operation: Any) -> Any:
    allow, literal = AclPermissionType.ALLOW, ResourcePatternType.LITERAL
    return kind_of_binding(kind, name, literal, "User:limited", "*", operation, allow)
