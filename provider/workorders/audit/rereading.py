"""Reads messages again from Kafka, and compares each with its work order, after decoding it as the ingest does."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson

from workorders.audit import stored
from workorders.audit.findings import REPORT, Check, Finding
from workorders.audit.messages import Block, StoredMessage, difference, is_missing, was_changed_since
from workorders.audit.partitions import Ledger, replay_action
from workorders.core.creation.work_orders import rejection_of
from workorders.core.exceptions import WorkOrdersError
from workorders.core.items import Item
from workorders.core.postgres.connection import VALUE_ERRORS, Connection
from workorders.kafka.client.admin import run, shared_admin
from workorders.kafka.client.range_consumer import UNREADABLE_HEADERS, is_out_of_range, read_range
from workorders.kafka.client.settings import SettingsOf, client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest.record_mapping import FILTERED, RecordMapping
from workorders.kafka.partitions import OffsetRange, Record


class Rereading:
    """Compares the messages of one trigger."""

    def __init__(
        self, connection: Connection, trigger: str, kafka_settings: SettingsOf, registry_settings: SettingsOf
    ) -> None:
        self.messages = self.undecided = 0
        self._connection = connection
        self._definition, self._changed_at = stored.definition(connection, trigger)
        known = KafkaTriggerDefinition.model_validate(self._definition)
        self._settings = client_settings(kafka_settings(known.kafka_connection))
        registry = known.registry_connection
        self._registry = None if registry is None else registry_settings(registry)
        self._mappings: dict[bytes, RecordMapping] = {}

    def check(self, ledger: Ledger, block: Block) -> Iterator[Finding]:
        """Compare the messages of a block, and what is stored at offsets without a message.

        Raises:
            WorkOrdersError: Kafka, or the registry, did not answer or refused.
            KafkaException: Kafka refused.
        """
        without_message = stored.positions(self._connection, ledger, block.start, block.end)
        asked = OffsetRange(ledger.log, block.start, block.end)
        with closing(read_range(self._settings, asked, block.start)) as records:
            try:
                for record in records:
                    without_message.discard(record.offset)
                    yield from self._check_record(ledger, block, record)
            except Exception as error:
                if not is_out_of_range(error):
                    raise
                return  # Kafka has deleted the beginning of the block meanwhile.
        without_message = {offset for offset in without_message if block.covering(offset)}
        if without_message and self._keeps_all(ledger.topic):
            what = "A work order is stored, and Kafka has no committed message at its offset."
            for offset in sorted(without_message):
                yield ledger.found(Check.MESSAGES, what, REPORT, (offset, offset + 1))

    def _check_record(self, ledger: Ledger, block: Block, record: Record) -> Iterator[Finding]:
        items = [
            (range_, self._mapping(range_.filter).map_record(record, ledger.stream))
            for range_ in block.covering(record.offset)
        ]
        taken = [(range_, item) for range_, item in items if item.rejection is not FILTERED]
        if not taken:
            return
        self.messages += 1
        range_, item = taken[-1]
        offsets = (record.offset, record.offset + 1)
        item, found = self._compare(ledger, item, record)
        if found is None and is_missing([range_ for range_, _ in taken], ledger.deletes_before):
            missing = "Kafka has a message that its batch took, and it has no work order."
            yield ledger.found(Check.MESSAGES, missing, replay_action(ledger, range_.batch_id), offsets)
            return
        has_headers = not record.headers or record.headers[0][0] != UNREADABLE_HEADERS
        is_decoded = any(mapping.payloads is not None for mapping in self._mappings.values())
        what = found and difference(item, found, is_decoded=is_decoded, has_headers=has_headers)
        if found is None or (what and was_changed_since(found.created_at, self._changed_at)):
            self.undecided += 1
        elif what:
            action = f"Compare it with a backup; `workorders work-orders show {found.id}` prints it. {REPORT}"
            yield ledger.found(Check.MESSAGES, f"Work order {found.id} {what}.", action, offsets)

    def _compare(self, ledger: Ledger, item: Item, record: Record) -> tuple[Item, StoredMessage | None]:
        """Return the item as it is stored, and its work order."""
        try:
            return item, stored.compare(self._connection, ledger, item, record)
        except VALUE_ERRORS as error:
            refused = item._replace(body=None, rejection=rejection_of(error), raw=item.body)
            return refused, stored.compare(self._connection, ledger, refused, record)

    def _mapping(self, filter_: Any) -> RecordMapping:
        key = orjson.dumps(filter_)
        if key not in self._mappings:
            definition = KafkaTriggerDefinition.model_validate({**self._definition, "filter": filter_})
            self._mappings[key] = RecordMapping.of(definition, self._registry)
        return self._mappings[key]

    def _keeps_all(self, topic: str) -> bool:
        """Return whether only the beginning of a topic is deleted; False if it is compacted, or that is not known."""
        try:
            policy = run(shared_admin(self._settings).cleanup_policy(topic))
        except WorkOrdersError:
            return False
        return policy is not None and "compact" not in policy
