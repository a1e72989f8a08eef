"""Maps Spark's record batches to rows of COPY by column: the same bytes as record by record, for half of the CPU.

Pure functions on columns of n records: Arrow arrays, and numpy arrays over their buffers. What a column cannot tell is
left to `record_mapping`: keys that JSON must escape, and each record that is not stored as it is (rejected, or a
tombstone). These records are the *odd* ones of a block.

Arrays are made from buffers, and read as buffers: `pyarrow.array`, `pyarrow.scalar`, and `to_numpy` import pandas if it
is installed, which costs each worker more CPU than a small batch.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, Final

import numpy
import orjson
import pyarrow
from pyarrow import compute

from workorders.core.creation.json_validation import LONG_RUN_OF_DIGITS, SUSPICIOUS_PATTERN
from workorders.core.items import Encoded, Item, Rejection
from workorders.core.json_bytes import text_or_base64
from workorders.core.postgres import binary_rows
from workorders.core.selectors import canonical
from workorders.kafka.definition.filter import Condition, MessageFilter
from workorders.kafka.formats.decoded import Decoded, Headers
from workorders.kafka.formats.payloads import Payloads
from workorders.kafka.ingest.record_mapping import (
    NO_TIMESTAMP,
    REQUEST,
    TIMESTAMP_TYPES,
    Place,
    RecordMapping,
    Source,
    text_json,
)

Array = numpy.ndarray[Any, numpy.dtype[Any]]
"""With one dimension."""

BLOCK_RECORDS: Final = 500
"""Also the step in which the next chunk is read. Blocks of 1,000 to 5,000 took a quarter more CPU."""
BLOCK_BYTES: Final = 1024 * 1024
"""Of values; the record that reaches it is the last one of its block."""

_BINARY: Final = pyarrow.binary()
_REQUEST: Final = re.split(rb"%[bd]", REQUEST)
_VALUE_SCHEMA, _END = b',"value_schema":', b"}"
_ID: Final = "V16"
# The layouts of `binary_rows.work_order` and `binary_rows.dataclip`, without padding.
_WORK_ORDER: Final = [("fields", ">i2"), ("id_size", ">i4"), ("id", _ID), ("size", ">i4"), ("position", ">i8")]
_DATACLIP: Final = [("fields", ">i2"), ("id_size", ">i4"), ("id", _ID), ("size", ">i4"), ("version", "u1")]
_JSONB: Final = [("size", ">i4"), ("version", "u1")]
_JSONB_VERSION: Final = 1
_START_BYTES: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class RecordBlock:
    """Successive records of one partition, by column. Implements `core.items.ItemBlock`."""

    stream: str
    offsets: Array
    """int64[n]"""
    requests: pyarrow.BinaryArray
    values: pyarrow.BinaryArray
    odd: Mapping[int, Item] = field(default_factory=dict)
    """By row, in order: the items whose body is not their value. The requests and values of these rows are not used."""
    seen: Array | None = None
    """int64: the offsets with those that the filter left out, if there is a filter; a block may be of these alone."""

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.offsets)

    def __iter__(self) -> Iterator[Item]:
        """Yield the items, one by one."""
        columns = zip(self.offsets.tolist(), self.requests.to_pylist(), self.values.to_pylist(), strict=True)
        for row, (offset, request, value) in enumerate(columns):
            yield self.odd.get(row) or Item(self.stream, offset, request, value)

    @property
    def size(self) -> int:
        """The bytes of all bodies, requests, and raw values."""
        sizes = _lengths(self.requests) + _lengths(self.values)
        for row, item in self.odd.items():
            sizes[row] = len(item.request) + len(item.body or item.raw or b"")
        return int(sizes.sum())

    @property
    def filtered(self) -> int:
        """The number of records that the filter left out."""
        return 0 if self.seen is None else len(self.seen) - len(self)

    @property
    def positions(self) -> list[int]:
        """The offsets of all records, with those that the filter left out."""
        found: list[int] = self._seen.tolist()
        return found

    @property
    def last(self) -> int:
        """The last of these offsets."""
        return int(self._seen[-1])

    @property
    def _seen(self) -> Array:
        return self.offsets if self.seen is None else self.seen

    def ascends_within(self, start: int, end: int) -> bool:
        """Return whether each offset is greater than the one before, and all are in [start, end)."""
        offsets = self._seen
        return bool(offsets[0] >= start and offsets[-1] < end and (numpy.diff(offsets) > 0).all())

    def work_orders(self, ids: Sequence[bytes], accepted: bytes, rejected: bytes) -> Iterator[Encoded]:
        """Yield the rows of `work_orders` in few pieces; the arguments are the ids and the suffixes of the rows."""
        own = {
            row: binary_rows.work_order(ids[row], item.position, rejected if item.body is None else accepted)
            for row, item in self.odd.items()
        }
        rows = numpy.empty(len(self), [*_WORK_ORDER, ("suffix", f"V{len(accepted)}")])
        rows["fields"], rows["id_size"], rows["id"] = len(binary_rows.WORK_ORDER_COLUMNS), 16, _ids(ids)
        rows["size"], rows["position"], rows["suffix"] = 8, self.offsets, numpy.void(accepted)
        yield from _with_own_rows(rows.tobytes(), numpy.arange(len(self) + 1) * rows.itemsize, own)

    def dataclips(self, ids: Sequence[bytes]) -> Iterator[Encoded]:
        """Yield the rows of `dataclips` in few pieces, without those of rejected records."""
        own = {
            row: b"" if item.body is None else binary_rows.dataclip(ids[row], item.body, item.request)
            for row, item in self.odd.items()
        }
        heads = numpy.empty(len(self), _DATACLIP)
        heads["fields"], heads["id_size"], heads["id"] = len(binary_rows.DATACLIP_COLUMNS), 16, _ids(ids)
        heads["size"], heads["version"] = _lengths(self.values) + 1, _JSONB_VERSION
        middles = numpy.empty(len(self), _JSONB)
        middles["size"], middles["version"] = _lengths(self.requests) + 1, _JSONB_VERSION
        rows = _joined(_structs(heads), self.values, _structs(middles), self.requests)
        starts = _starts(rows)
        yield from _with_own_rows(memoryview(rows.buffers()[2]), starts, own)


def blocks(mapping: RecordMapping, batch: pyarrow.RecordBatch, stream: str) -> Iterator[RecordBlock]:
    """Yield the records of a batch from one Kafka partition in blocks of a bounded size, in its order.

    Their items are those that `RecordMapping.map_record` gives for each record. Those that it marks as filtered
    are only counted.

    Args:
        mapping: of the trigger.
        batch: with the columns `key`, `value` (binary), `topic` (string), `partition` (int32), `offset` (int64),
            `timestamp_ms` (int64: milliseconds, since a Spark timestamp spoils -1 and the year 300000),
            `timestampType` (int32), `headers` (list of struct of key and value; null when a record has none).
        stream: the name of the topic and partition within the trigger.

    Raises:
        ValueError: The batch holds records of several partitions; `stream` can name only one.
    """
    if batch.num_rows == 0:
        return
    source = _source(batch, stream)
    if mapping.filter is None:
        yield from _blocks(mapping, source, batch, stream)
        return
    offsets, rows = _numbers(batch.column("offset"), numpy.int64), _rows_by_headers(mapping, mapping.filter, batch)
    done = mapped = 0
    for block in _blocks(mapping, source, batch.take(_fixed(rows, pyarrow.int64())), stream) if len(rows) else ():
        mapped += len(block)
        end = int(rows[mapped - 1]) + 1
        yield replace(_passing(mapping.filter, block), seen=offsets[done:end])
        done = end
    if done < len(offsets):
        yield RecordBlock(stream, offsets[:0], _column([]), _column([]), seen=offsets[done:])


def _rows_by_headers(mapping: RecordMapping, filter_: MessageFilter, batch: pyarrow.RecordBatch) -> Array:
    """Return the rows of a batch that meet the filter's conditions on headers: int64[]."""
    column = batch.column("headers")
    met = numpy.ones(len(column), numpy.bool_)
    for condition in filter_.of_headers:
        met &= _meets(mapping, condition, column)
    return numpy.flatnonzero(met)


def _meets(mapping: RecordMapping, condition: Condition, column: pyarrow.ListArray) -> Array:
    """Return whether the first header of a condition's name meets it: bool[n]."""
    structs = column.flatten()
    starts = _sums(_numbers(compute.fill_null(column.value_lengths(), _ZERO), numpy.int32))
    is_named = _encoded_once(structs.field(0).cast(_BINARY), lambda name: _flag(_is_of(mapping, condition, name)))
    places = numpy.append(numpy.flatnonzero(_lengths(is_named)), len(structs))
    first = places[numpy.searchsorted(places, starts[:-1])]
    has = first < starts[1:]
    values = structs.field(1).take(_fixed(first[has], pyarrow.int64()))
    met = numpy.full(len(column), condition.holds(None))
    met[has] = _lengths(_encoded_once(values, lambda value: _flag(condition.holds(_header_value(value)))))
    return met


def _is_of(mapping: RecordMapping, condition: Condition, name: bytes) -> bool:
    """Return whether a request has headers of this name, and a condition is about them."""
    text = text_or_base64(name)
    return isinstance(text, str) and text.lower() == condition.header and mapping.wants(name)


def _header_value(value: bytes | None) -> bytes | None:
    """Return what a selector finds in a header of this value."""
    return None if value is None else canonical(text_or_base64(value))


def _flag(is_set: bool) -> bytes:
    return b"1" if is_set else b""


def _passing(filter_: MessageFilter, block: RecordBlock) -> RecordBlock:
    """Return a block without the records that do not meet the conditions beyond headers."""
    if not filter_.beyond_headers:
        return block
    rows = [
        row
        for row, (request, item) in enumerate(zip(block.requests.to_pylist(), block, strict=True))
        if filter_.holds(filter_.beyond_headers, request, item)
    ]
    if len(rows) == len(block):
        return block
    taken = numpy.array(rows, numpy.int64)
    places = _fixed(taken, pyarrow.int64())
    odd = {row: block.odd[was] for row, was in enumerate(rows) if was in block.odd}
    return RecordBlock(block.stream, block.offsets[taken], block.requests.take(places), block.values.take(places), odd)


def _blocks(mapping: RecordMapping, source: Source, batch: pyarrow.RecordBatch, stream: str) -> Iterator[RecordBlock]:
    """Yield all records of a batch."""
    # Of the whole batch, because kernels on few records cost more time for their calls than for their work.
    requests, values = _requests(mapping, source, batch), _binary(batch, "value")
    offsets, starts = _numbers(batch.column("offset"), numpy.int64), _starts(values)
    begin = 0
    while begin < len(offsets):
        full = int(numpy.searchsorted(starts, int(starts[begin]) + BLOCK_BYTES))
        end = min(max(full, begin + 1), begin + BLOCK_RECORDS, len(offsets))
        size = end - begin
        block = RecordBlock(stream, offsets[begin:end], requests.slice(begin, size), values.slice(begin, size))
        if mapping.payloads is None:
            yield replace(block, odd=_odd_items(mapping, source, block))
        else:
            yield _decoded(mapping, mapping.payloads, source, block, batch.slice(begin, size))
        begin = end


def _decoded(
    mapping: RecordMapping, payloads: Payloads, source: Source, block: RecordBlock, records: pyarrow.RecordBatch
) -> RecordBlock:
    """Return the block of some records with their keys and values decoded."""
    topic, values = orjson.loads(source.topic), block.values.to_pylist()
    headers = _header_lists(records.column("headers")) if payloads.needs_headers else repeat((), len(block))
    decoded = [mapping.decode(payloads, topic, *pair) for pair in zip(values, headers, strict=True)]
    plain = None if payloads.decodes_keys else _decoded_plainly(mapping, block, decoded)
    if plain is not None:
        return plain
    jsons = [
        found.json if isinstance(found, Decoded) else value or b"" for found, value in zip(decoded, values, strict=True)
    ]
    suspicious = _suspicious_rows(_column(jsons))
    keys, written = records.column("key").to_pylist(), block.requests.to_pylist()
    given = zip(block.offsets.tolist(), written, keys, values, decoded, strict=True)
    requests, bodies, odd = [], [], {}
    for row, (offset, request, key, value, found) in enumerate(given):
        place = Place(block.stream, source, topic, offset)
        item = mapping.decoded_item(payloads, place, request, key, value, found, row in suspicious)
        if item.body is None:
            odd[row] = item
        # The filter looks at all of a request of which a rejected record keeps a part.
        requests.append(request if item.body is None else item.request)
        bodies.append(item.body or b"")
    return RecordBlock(block.stream, block.offsets, _column(requests), _column(bodies), odd)


def _decoded_plainly(
    mapping: RecordMapping, block: RecordBlock, decoded: Sequence[Decoded | Rejection | None]
) -> RecordBlock | None:
    """Return the block with its decoded values if all of them are inputs; None if records must be looked at."""
    found = [one for one in decoded if isinstance(one, Decoded)]
    if len(found) < len(decoded):
        return None
    texts, schemas = [one.json for one in found], [one.schema for one in found if one.schema is not None]
    requests = block.requests
    if schemas:
        requests = _joined(compute.binary_slice(requests, 0, -1), _VALUE_SCHEMA, _column(schemas), _END)
    plain = replace(block, requests=requests, values=_column(texts))
    return plain if _are_inputs(mapping, plain, texts, _suspicious_rows(plain.values)) else None


def _header_lists(column: pyarrow.ListArray) -> Iterator[Headers]:
    for structs in column.to_pylist():
        yield [(struct["key"], struct["value"]) for struct in structs or ()]


def _source(batch: pyarrow.RecordBatch, stream: str) -> Source:
    topics, partitions = batch.column("topic"), batch.column("partition")
    if len(topics.unique()) > 1 or len(partitions.unique()) > 1:
        sources = set(zip(topics.to_pylist(), partitions.to_pylist(), strict=True))
        raise ValueError(f"A record batch of {stream} holds {len(sources)} partitions, but must hold one.")
    return Source.of(topics[0].as_py(), partitions[0].as_py())


def _odd_items(mapping: RecordMapping, source: Source, block: RecordBlock) -> dict[int, Item]:
    """Validate the values of a block, and return the items whose body is not their value, by row."""
    texts, suspicious = block.values.to_pylist(), _suspicious_rows(block.values)
    if _are_inputs(mapping, block, texts, suspicious):
        return {}
    columns = enumerate(zip(block.offsets.tolist(), block.requests.to_pylist(), texts, strict=True))
    items = (
        (row, mapping.item(block.stream, source, offset, request, text, row in suspicious), text)
        for row, (offset, request, text) in columns
    )
    return {row: item for row, item, text in items if item.body is None or item.body is not text}


def _are_inputs(
    mapping: RecordMapping, block: RecordBlock, texts: Sequence[bytes | None], suspicious: set[int]
) -> bool:
    """Return whether each value of a block is stored as it is, without a look at one of them alone."""
    longest_request, longest_value = _lengths(block.requests).max(), _lengths(block.values).max()
    is_short = bool(longest_request <= mapping.max_message_bytes) and bool(
        longest_value <= min(mapping.max_message_bytes, LONG_RUN_OF_DIGITS)
    )
    return is_short and not suspicious and _are_objects(texts)


def _requests(mapping: RecordMapping, source: Source, batch: pyarrow.RecordBatch) -> pyarrow.BinaryArray:
    """Return the request of each record, as if none were too long."""
    times = compute.fill_null(_decimal(batch.column("timestamp_ms")), _NULL)
    return _joined(
        _REQUEST[0],
        _keys(_binary(batch, "key")),
        _REQUEST[1] + source.topic + _REQUEST[2],
        _decimal(batch.column("offset")),
        _REQUEST[3],
        _headers(mapping, batch.column("headers")),
        _REQUEST[4] + source.partition + _REQUEST[5],
        compute.if_else(compute.equal(times, _NO_TIMESTAMP), _NULL, times),
        _REQUEST[6],
        _encoded_once(batch.column("timestampType"), lambda type_: TIMESTAMP_TYPES.get(type_, TIMESTAMP_TYPES[-1])),
        _REQUEST[7],
    )


def _keys(keys: pyarrow.BinaryArray) -> pyarrow.BinaryArray:
    """Return keys as JSON."""
    if not _is_plain_text(keys):
        return _encoded_once(keys, _text_json)
    quoted = _joined(b'"', keys, b'"')
    return compute.fill_null(quoted, _NULL) if keys.null_count else quoted


def _headers(mapping: RecordMapping, column: pyarrow.ListArray) -> pyarrow.BinaryArray | bytes:
    """Return the wanted headers of each record as JSON pairs with commas between."""
    if mapping.headers == "none":
        return b""
    structs = column.flatten()
    names = structs.field(0).cast(_BINARY)
    wanted = _encoded_once(names, lambda name: b"1" if mapping.wants(name) else b"")
    pairs = _joined(b"[", _encoded_once(names, _text_json), b",", _encoded_once(structs.field(1), _text_json), b"]")
    starts = _sums(_numbers(compute.fill_null(column.value_lengths(), _ZERO), numpy.int32))
    wanted_starts = _sums(_lengths(wanted))[starts]
    wanted_pairs = pairs.filter(compute.not_equal(wanted, _NOTHING))
    lists = pyarrow.ListArray.from_arrays(_fixed(wanted_starts, pyarrow.int32()), wanted_pairs)
    return compute.binary_join(lists, _COMMA)


def _encoded_once(column: pyarrow.Array, encode: Callable[[Any], bytes]) -> pyarrow.BinaryArray:
    """Return what `encode` makes of each value, asked once for equal ones."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return _column([encode(value) for value in encoded.dictionary.to_pylist()]).take(encoded.indices)


def _text_json(value: bytes | None) -> bytes:
    # A copy, since orjson's results have a buffer of 1 KiB: to keep them takes twenty times as long as to make them.
    return b"%b" % text_json(value)


def _sums(numbers: Array) -> Array:
    """Return the sum of the numbers before each of them, and of all: int32[n + 1]."""
    return numpy.concatenate(([0], numpy.cumsum(numbers))).astype(numpy.int32)


def _are_objects(texts: Sequence[bytes | None]) -> bool:
    """Return whether all texts are JSON objects; the loop over messages that remains, without a step in Python."""
    try:
        return set(map(type, map(orjson.loads, texts))) == {dict}  # type: ignore[arg-type]
    except orjson.JSONDecodeError:
        return False


def _suspicious_rows(values: pyarrow.BinaryArray) -> set[int]:
    """Return the rows whose value matches `SUSPICIOUS_PATTERN`.

    The pattern takes six times as long as a scan of the bytes, so it decides only about rows that the scan found.
    """
    data, starts = _data(values), _starts(values)
    before, after = data[:-1], data[1:]
    exponents = (before >= ord("0")) & (before <= ord("9")) & ((after | 0x20) == ord("e"))
    found = numpy.flatnonzero(exponents | ((before == ord("\\")) & (after == ord("u"))))
    if not len(found):
        return set()
    rows = numpy.unique(numpy.searchsorted(starts, found + starts[0], side="right") - 1)
    matches = compute.match_substring_regex(values.take(_fixed(rows, pyarrow.int64())), pattern=SUSPICIOUS_PATTERN)
    return {row for row, matched in zip(rows.tolist(), matches.to_pylist(), strict=True) if matched}


def _is_plain_text(column: pyarrow.BinaryArray) -> bool:
    """Return whether all values are printable ASCII that JSON does not escape."""
    data = _data(column)
    return not ((data < ord(" ")) | (data > ord("~")) | (data == ord('"')) | (data == ord("\\"))).any()


def _binary(batch: pyarrow.RecordBatch, name: str) -> pyarrow.BinaryArray:
    """Return a column with offsets of 32 bits, whichever of Arrow's binary types Spark chose."""
    return batch.column(name).cast(_BINARY)


def _decimal(numbers: pyarrow.Array) -> pyarrow.BinaryArray:
    return numbers.cast(pyarrow.string()).cast(_BINARY)


def _joined(*parts: pyarrow.BinaryArray | bytes) -> pyarrow.BinaryArray:
    """Return the concatenation of columns and constants, row by row; null where one of them is null."""
    columns = (_column([part])[0] if isinstance(part, bytes) else part for part in parts)
    return compute.binary_join_element_wise(*columns, _NOTHING)


def _column(values: Sequence[bytes]) -> pyarrow.BinaryArray:
    return _slices(b"".join(values), _sums(numpy.fromiter(map(len, values), numpy.int32, len(values))))


def _structs(rows: Array) -> pyarrow.BinaryArray:
    """Return structs of numpy as bytes, without a copy."""
    return _slices(rows, numpy.arange(len(rows) + 1, dtype=numpy.int32) * rows.itemsize)


def _slices(data: Array | bytes, starts: Array) -> pyarrow.BinaryArray:
    buffers = [None, pyarrow.py_buffer(starts), pyarrow.py_buffer(data)]
    return pyarrow.Array.from_buffers(_BINARY, len(starts) - 1, buffers)


def _fixed(numbers: Array, type_: pyarrow.DataType) -> pyarrow.Array:
    return pyarrow.Array.from_buffers(type_, len(numbers), [None, pyarrow.py_buffer(numbers)])


def _numbers(column: pyarrow.Array, type_: type[numpy.integer[Any]]) -> Array:
    """Return a column of numbers without nulls."""
    return numpy.frombuffer(column.buffers()[1], type_, len(column), column.offset * numpy.dtype(type_).itemsize)


def _ids(ids: Sequence[bytes]) -> Array:
    return numpy.frombuffer(b"".join(ids), _ID)


def _starts(column: pyarrow.BinaryArray) -> Array:
    """Return where each value starts in the data's buffer, and where the last one ends: int32[n + 1]."""
    return numpy.frombuffer(column.buffers()[1], numpy.int32, len(column) + 1, column.offset * _START_BYTES)


def _lengths(column: pyarrow.BinaryArray) -> Array:
    """Return the bytes of each value: int32[n]."""
    return numpy.diff(_starts(column))


def _data(column: pyarrow.BinaryArray) -> Array:
    """Return the bytes of all values, one after another: uint8[]."""
    starts, buffer = _starts(column), column.buffers()[2]
    return numpy.frombuffer(buffer or b"", numpy.uint8)[starts[0] : starts[-1]]


def _with_own_rows(data: Encoded, starts: Array, own: Mapping[int, bytes]) -> Iterator[Encoded]:
    """Yield rows, with other bytes for some of them.

    Args:
        data: the bytes of all rows.
        starts: where each row starts in them, and where the last one ends: int[n + 1].
        own: the bytes of the other rows, by row and in order.
    """
    whole, begin = memoryview(data), 0
    for row, encoded in chain(own.items(), [(len(starts) - 1, b"")]):
        yield whole[starts[begin] : starts[row]]
        yield encoded
        begin = row + 1


_NOTHING, _COMMA, _NULL, _NO_TIMESTAMP = _column([b"", b",", b"null", b"%d" % NO_TIMESTAMP])
_ZERO: Final = _fixed(numpy.zeros(1, numpy.int32), pyarrow.int32())[0]
