"""The benchmarks by name: each takes the stack and sizes, and returns its figures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise, product
from statistics import median
from typing import TypeVar

from benchmarks import (
    backlog,
    busy,
    claim,
    cli_start,
    cost,
    create_for,
    dbos_peer,
    dedup,
    drain,
    execute,
    files,
    formats,
    idle_stack,
    many,
    million,
    outbox,
    pages,
    plain_copy,
    search,
    server_memory,
    steady,
    virtual,
)
from benchmarks.figures import Bar, Figure, middle, percentile
from benchmarks.sizes import Sizes
from benchmarks.trigger_files import ON_SERVER, WAYS
from local_stack.stack import LocalStack
from support.outbox import Outbox, new_outbox
from support.spark_submit import CORES
from support.topics import Topics
from workorders.core.postgres.connection import connect

T = TypeVar("T")


@dataclass(slots=True)
class Bench:
    """What the benchmarks of one run share."""

    stack: LocalStack
    sizes: Sizes
    say: Callable[[str], None]
    failed: list[str] = field(default_factory=list)
    """What failed, and has no figure."""
    _numbers: Iterator[int] = field(default_factory=count)

    def topic(self, word: str) -> str:
        """Return the name of a topic that was not used yet."""
        return f"bench-{word}-{next(self._numbers)}"

    def attempt(self, what: str, measure: Callable[[], T]) -> T | None:
        """Return a measurement; None if it failed, which loses none of the other measurements."""
        self.say(what)
        try:
            return measure()
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way
            self.say(f"{what} FAILED: {error}")
            self.failed.append(what)
            return None

    def base(self, connections: int, rows: int | None = None) -> float:
        """Return raw COPY's speed now, in the fastest way."""
        count = rows or self.sizes.rows
        return max(
            plain_copy.rows_per_second(self.stack.database_url, way, count, connections) for way in plain_copy.WAYS
        )


def against(
    name: str, runs: list[float], bases: list[float], base: str, bar: Bar | None = None, *, unit: str = "messages/s"
) -> Figure:
    """Return a median as a figure, with the median of the ratios of pairs that were measured in turns."""
    ratios = tuple(run / other for run, other in zip(runs, bases, strict=True))
    return Figure(name, median(runs), unit, tuple(runs), median(ratios), base, ratios, bar)


def copy(bench: Bench) -> list[Figure]:
    """Raw COPY on one and on as many connections as Spark has cores, in every way of giving the values."""
    runs: dict[tuple[str, int], list[float]] = {}
    for number in range(bench.sizes.rounds):
        bench.say(f"raw COPY, round {number + 1} of {bench.sizes.rounds}")
        for way in plain_copy.WAYS:
            for connections in (1, CORES):
                speed = plain_copy.rows_per_second(bench.stack.database_url, way, bench.sizes.rows, connections)
                runs.setdefault((way, connections), []).append(speed)
    return [
        middle(f"raw COPY, {way}, {connections} connection{'s' if connections > 1 else ''}", speeds, "rows/s")
        for (way, connections), speeds in runs.items()
    ]


def create_work_orders(bench: Bench) -> list[Figure]:
    """Our `create_for` on one connection, in turns with raw COPY."""
    bases: list[float] = []
    runs: dict[str, list[float]] = {way: [] for way in create_for.WAYS}
    for number in range(bench.sizes.rounds):
        bench.say(f"create_for, round {number + 1} of {bench.sizes.rounds}")
        bases.append(bench.base(1))
        for way, speeds in runs.items():
            speeds.append(create_for.rows_per_second(bench.stack.database_url, way, bench.sizes.rows))
    base, bars = "raw COPY, 1 connection", {"create_for, ready items": Bar(0.9)}
    return [
        middle(base, bases, "rows/s", note="the fastest way, in turns"),
        *(against(way, speeds, bases, base, bars.get(way)) for way, speeds in runs.items()),
    ]


def duplicates_and_order(bench: Bench) -> list[Figure]:
    """`create_for` with idempotency keys and with sequences, in turns with the same items without."""
    runs: dict[str, list[float]] = {way: [] for way in dedup.WAYS}
    for number in range(bench.sizes.rounds):
        bench.say(f"idempotency keys and sequences, round {number + 1} of {bench.sizes.rounds}")
        for way, speeds in runs.items():
            speeds.append(dedup.rows_per_second(bench.stack.database_url, way, bench.sizes.rows))
    plain = runs.pop(dedup.PLAIN)
    base = f"create_for, {dedup.PLAIN}"
    return [
        middle(base, plain, "messages/s"),
        *(against(f"create_for, {way}", speeds, plain, base, Bar(0.5)) for way, speeds in runs.items()),
    ]


def spark(bench: Bench) -> list[Figure]:
    """The whole Spark application on a large backlog, between runs of raw COPY on as many connections as cores."""
    # As many rows as the backlog has: a copy of fewer ends before Postgres's next checkpoint, and its speed wavers.
    bases = [bench.base(CORES, bench.sizes.backlog)]
    runs: list[backlog.Ingested] = []
    for number in range(bench.sizes.backlog_rounds):
        bench.say(f"Spark application, {bench.sizes.backlog:,} messages, round {number + 1}")
        runs.append(backlog.ingest(bench.stack, bench.topic("backlog"), bench.sizes.backlog))
        bases.append(bench.base(CORES, bench.sizes.backlog))
    working = [run.messages / run.working_seconds for run in runs]
    total = [run.messages / run.total_seconds for run in runs]
    base = f"raw COPY, {CORES} connections"
    around = [(before + after) / 2 for before, after in pairwise(bases)]
    return [
        middle(base, bases, "rows/s", note="the fastest way, before and after"),
        against("Spark application, start-up apart", working, around, base, Bar(0.4)),
        middle("Spark application, start-up included", total, "messages/s"),
        middle("start-up and end", [run.total_seconds - run.working_seconds for run in runs], "s"),
    ]


def virtual_partitions(bench: Bench) -> list[Figure]:
    """One partition that is cut, in turns with four partitions and with one that is not cut."""
    turns: list[virtual.Turn] = []
    for number in range(bench.sizes.backlog_rounds):
        bench.say(f"virtual partitions, {bench.sizes.backlog:,} messages, round {number + 1}")
        topic = bench.topic("cut")
        turns.append(virtual.take_turn(bench.stack, topic, bench.sizes.backlog, backwards=number % 2 == 1))
    base = f"{backlog.PARTITIONS} partitions"
    real, cut, whole = (
        [run.messages / run.working_seconds for run in runs]
        for runs in zip(*((turn.partitions, turn.virtual, turn.whole) for turn in turns), strict=True)
    )
    return [
        middle(base, real, "messages/s", note="start-up apart"),
        against(f"1 partition, {backlog.PARTITIONS} virtual partitions", cut, real, base, Bar(0.8)),
        against("1 partition, not cut", whole, real, base),
    ]


def formats_of_messages(bench: Bench) -> list[Figure]:
    """The same messages by schemas of a registry, each between two runs of JSON on a warm server, start-up apart."""
    rounds = bench.sizes.format_rounds
    json: list[float] = []
    speeds: dict[str, list[float]] = {format_: [] for format_ in formats.FORMATS}
    around: dict[str, list[float]] = {format_: [] for format_ in formats.FORMATS}
    bench.say(f"{bench.sizes.formatted:,} messages in each format")
    with formats.prepared(bench.stack, bench.topic("format"), bench.sizes.formatted) as topics:
        # A server's first large batches are slower than those after them, and the first one would be JSON.
        topics.messages_per_second(formats.JSON)
        json.append(topics.messages_per_second(formats.JSON))
        for number, format_ in product(range(rounds), formats.FORMATS):
            bench.say(f"{format_}, round {number + 1} of {rounds}")
            speeds[format_].append(topics.messages_per_second(format_))
            json.append(topics.messages_per_second(formats.JSON))
            around[format_].append(sum(json[-2:]) / 2)
    base, bars = "JSON, before and after", {"avro": Bar(0.5)}
    return [
        middle(formats.JSON, json, "messages/s"),
        *(against(format_, found, around[format_], base, bars.get(format_)) for format_, found in speeds.items()),
    ]


def memory_of_server(bench: Bench) -> list[Figure]:
    """Memory and processes of a Spark Connect server after its warm-up, and after many small batches."""
    count = bench.sizes.server_batches
    first, *_, last = server_memory.looks(
        bench.stack,
        bench.topic("server"),
        warm_up=bench.sizes.server_warm_up,
        count=count,
        every=max(count // 4, 1),
        say=bench.say,
    )
    for line in server_memory.growth(first, last):
        bench.say(line)
    warm, many_batches = "after its warm-up", f"after {count:,} batches"
    ratio = last.live_mib / first.live_mib
    return [
        Figure(f"objects in use {warm}", first.live_mib, "MiB"),
        Figure(
            f"objects in use {many_batches}",
            last.live_mib,
            "MiB",
            ratio=ratio,
            ratio_to=warm,
            bar=Bar(1.1, at_most=True),
        ),
        Figure(f"resident memory {warm}", first.rss_mib, "MiB"),
        Figure(
            f"resident memory {many_batches}", last.rss_mib, "MiB", ratio=last.rss_mib / first.rss_mib, ratio_to=warm
        ),
        Figure(f"Python processes {many_batches}", last.python_processes, ""),
    ]


def claim_runs(bench: Bench) -> list[Figure]:
    """Claiming, starting and finishing runs in groups, among many finished and waiting ones."""
    figures: list[Figure] = []
    url, sizes = bench.stack.database_url, bench.sizes
    with connect(url, autocommit=True) as connection:
        many.fill(connection, sizes.claim_finished, bench.say, inputs=False)
    for number, (way, fields) in enumerate(claim.WAYS.items()):
        bench.say(f"claim, {way}, {sizes.claim_finished:,} finished and {sizes.claim_waiting:,} waiting runs")
        workflow = claim.prepare(url, number, fields, sizes.claim_waiting)
        for connections in (1, CORES):
            worked = claim.process(url, workflow, sizes.claim_groups, connections)
            where = f"{way}, {connections} connection{'s' if connections > 1 else ''}"
            bar = Bar(claim.RUNS_PER_SECOND) if connections == 1 and not fields else None
            figures += [
                Figure(f"claimed, started and finished, {where}", worked.runs_per_second, "runs/s", bar=bar),
                middle(f"claim of {claim.GROUP}, {where}, median", worked.claim_seconds, "s"),
                Figure(f"claim of {claim.GROUP}, {where}, 95th percentile", worked.slow_claim_seconds, "s"),
            ]
    return figures


def idle_whole_stack(bench: Bench) -> list[Figure]:
    """CPU of a whole stack in which many triggers wait."""
    sizes = bench.sizes
    bench.say(f"a stack with {sizes.idle_triggers} waiting triggers, {sizes.idle_stack_seconds:g} s")
    idle = idle_stack.measure(sizes.idle_triggers, sizes.idle_settle_seconds, sizes.idle_stack_seconds, bench.say)
    cores = idle.cores_by_part
    return [
        Figure(f"{sizes.idle_triggers} waiting triggers, all processes", sum(cores.values()), "cores", note="aim: 0.3"),
        *(Figure(part, used, "cores") for part, used in sorted(cores.items(), key=lambda item: -item[1])),
        Figure("connections of the triggerer to Kafka", idle.kafka_connections, ""),
        Figure("sessions in the database of the work orders", idle.sessions, ""),
    ]


def steady_trigger(bench: Bench) -> list[Figure]:
    """From messages to their work orders and to the ends of their functions, in turns with DBOS."""
    with steady.waiting_triggers({f"steady_{to}": to for to in WAYS.values()}, bench.say, executed=True) as triggers:
        dbos_peer.create_database(triggers.stack)
        loads = dict.fromkeys((0, bench.sizes.steady_busy))
        return [figure for processes in loads for figure in _steady_figures(bench, triggers, processes)]


def _steady_figures(bench: Bench, triggers: steady.Triggers, busy_processes: int) -> list[Figure]:
    load = f"next to {busy_processes} busy processes" if busy_processes else "idle machine"
    longer = 2 if busy_processes else 1
    seconds, start = bench.sizes.steady_seconds, min(20.0, bench.sizes.steady_seconds / 5)
    order, end = "message to work order", "message to end of function"
    with steady.busy_machine(triggers.stack, busy_processes):
        bench.say(f"{_STEADY_RATE} messages/s for {seconds:g} s to DBOS, {load}")
        dbos = dbos_peer.waits(triggers.messages, bench.topic("dbos"), _STEADY_RATE, seconds)
        figures = _wait_figures(f"{end}, DBOS, {load}", dbos, start)
        for way, to in WAYS.items():
            bench.say(f"{_STEADY_RATE} messages/s for {seconds:g} s, {way}, {load}")
            waits = triggers.produce([f"steady_{to}"], _STEADY_RATE, seconds)
            figures += _wait_figures(
                f"{order}, {way}, {load}", waits(steady.CREATED), start, 1.0 * longer, 2.5 * longer
            )
            ended = _wait_figures(f"{end}, {way}, {load}", waits(steady.INSERTED), start, 1.5 * longer, 3.5 * longer)
            bar = Bar(longer, at_most=True) if to == ON_SERVER else None
            figures += [
                *ended,
                against(f"{end}, {way}, {load}", [ended[0].value], [figures[0].value], "DBOS", bar, unit="s"),
            ]
    return figures


_STEADY_RATE = 5


def _wait_figures(
    name: str, waits: list[steady.Waited], start: float, middle_bar: float | None = None, late_bar: float | None = None
) -> list[Figure]:
    """Return what messages waited after the start, and apart from it those of the start, in which every task starts."""
    first = [wait.seconds for wait in waits if wait.produced < start]
    later = [wait.seconds for wait in waits if wait.produced >= start]
    bars = [None if limit is None else Bar(limit, at_most=True) for limit in (middle_bar, late_bar)]
    return [
        Figure(f"{name}, median", median(later), "s", bar=bars[0], note=f"of {len(later):,} after {start:g} s"),
        Figure(f"{name}, 95th percentile", percentile(later, 95), "s", bar=bars[1]),
        Figure(f"{name}, worst", max(later), "s"),
        Figure(f"{name}, 95th percentile of the first {start:g} s", percentile(first, 95), "s"),
    ]


def many_steady_triggers(bench: Bench) -> list[Figure]:
    """From messages to their work orders, while each of many triggers gets one per second."""
    count, seconds = bench.sizes.trickle_triggers, bench.sizes.trickle_seconds
    names = [f"trickle_{number:02}" for number in range(count)]
    with steady.waiting_triggers(dict.fromkeys(names, ON_SERVER), bench.say, executed=False) as triggers:
        bench.say(f"{count} triggers with a message per second each, {seconds:g} s")
        waits = triggers.produce(names, count, seconds)(steady.CREATED)
    name = f"message to work order, {count} triggers with 1/s"
    return _wait_figures(name, waits, min(60.0, seconds / 5), late_bar=10)


def cost_of_triggers(bench: Bench) -> list[Figure]:
    """What a trigger with steady messages adds to a stack whose triggers wait."""
    figures, seconds = [], bench.sizes.cost_seconds
    with steady.waiting_triggers({f"cost_{to}": to for to in WAYS.values()}, bench.say, executed=True) as triggers:
        bench.say(f"a stack with {len(WAYS)} waiting triggers, {seconds:g} s")
        idle = cost.idle(triggers.stack, seconds)
        figures += _cost_figures(f"{len(WAYS)} idle triggers, whole stack", idle)
        for way, to in WAYS.items():
            bench.say(f"a trigger with steady messages, {way}, {seconds:g} s")
            figures += _cost_figures(f"{way}, added", cost.steady(triggers, f"cost_{to}", idle.use, seconds))
    return figures


def _cost_figures(name: str, found: cost.Cost) -> list[Figure]:
    use = found.use
    return [
        Figure(f"{name}: scheduler and tasks", use.task_mib, "MiB"),
        Figure(f"{name}: triggerer", use.triggerer_mib, "MiB"),
        Figure(f"{name}: Spark Connect server", use.server_mib, "MiB"),
        Figure(f"{name}: all processes", use.cores, "cores"),
        Figure(f"{name}: slots of Airflow", use.slots, "tasks"),
        Figure(f"{name}: sessions in the database of the work orders", use.sessions, ""),
        Figure(f"{name}: connections to Kafka", use.kafka_connections, ""),
        Figure(f"{name}: Dag runs", found.dag_runs_a_day, "a day"),
        Figure(f"{name}: task instances", found.task_instances_a_day, "a day"),
    ]


def drained_backlog(bench: Bench) -> list[Figure]:
    """A backlog through Airflow in small and in large batches, start-up and planning included."""
    limit, figures = bench.sizes.drain_seconds, []
    backlogs = [
        drain.Backlog(waiting, size, way) for size, waiting in bench.sizes.drained.items() for way in reversed(WAYS)
    ]
    with drain.paused_triggers(backlogs, bench.say) as drains:
        drains.warm_up()
        for backlog in backlogs:
            what = f"backlog of {backlog.messages:,} in batches of {backlog.max_messages:,}, {backlog.way}"
            speed = bench.attempt(what, partial(drains.messages_per_second, backlog, limit))
            small = backlog.max_messages == min(bench.sizes.drained)
            if speed is not None:
                bar = Bar(1500) if small and backlog.way != "submitted" else None
                note = f"until the last, or for {limit:g} s"
                figures.append(Figure(what, speed, "messages/s", bar=bar, note=note))
    return figures


def million_messages(bench: Bench) -> list[Figure]:
    """A large backlog on a warm server and by peers, between runs of raw COPY, each with start-up and without."""
    stack, waiting, topic = bench.stack, bench.sizes.backlog, bench.topic("million")
    bench.say(f"{waiting:,} messages for all peers")
    million.prepare(stack, topic, waiting)
    base = f"raw COPY, {CORES} connections"
    copied = [bench.base(CORES, waiting)]
    rounds: list[dict[str, float]] = []
    for number in range(bench.sizes.million_rounds):
        speeds: dict[str, float] = {}
        for way, run in million.WAYS.items():
            what = f"{way}, {waiting:,} messages, round {number + 1}"
            done = bench.attempt(what, partial(run, stack, topic, waiting, f"{topic}-{number}"))
            if done is not None:
                speeds[f"{way}, {_WITH_START}"] = waiting / done.total_seconds
                speeds[f"{way}, {_WITHOUT_START}"] = waiting / done.working_seconds
        copied.append(bench.base(CORES, waiting))
        rounds.append({base: sum(copied[-2:]) / 2, **speeds})
    ours, ours_apart = f"{million.OURS}, {_WITH_START}", f"{million.OURS}, {_WITHOUT_START}"
    peers = (million.DEBEZIUM, million.OPERATOR)
    bars = dict(zip((base, *(f"{peer}, {_WITH_START}" for peer in peers)), (0.36, 1.45, 2.0), strict=True))
    apart = (base, *(f"{peer}, {_WITHOUT_START}" for peer in peers))
    return [
        *_medians(rounds),
        *(figure for other, bar in bars.items() for figure in _in_turns(rounds, ours, other, Bar(bar))),
        *(figure for other in apart for figure in _in_turns(rounds, ours_apart, other)),
    ]


_WITH_START, _WITHOUT_START = "start-up included", "start-up apart"


def _medians(rounds: list[dict[str, float]]) -> list[Figure]:
    names = dict.fromkeys(name for speeds in rounds for name in speeds)
    return [middle(name, [speeds[name] for speeds in rounds if name in speeds], "messages/s") for name in names]


def _in_turns(rounds: list[dict[str, float]], name: str, base: str, bar: Bar | None = None) -> list[Figure]:
    """Return one speed over another, of the rounds that have both; nothing if there is none."""
    pairs = [(speeds[name], speeds[base]) for speeds in rounds if name in speeds and base in speeds]
    return [against(name, [run for run, _ in pairs], [other for _, other in pairs], base, bar)] if pairs else []


def idle_trigger(bench: Bench) -> list[Figure]:
    """From single messages to their work orders, each through an Airflow that is idle."""
    figures: list[Figure] = []
    with steady.waiting_triggers({f"idle_{to}": to for to in WAYS.values()}, bench.say, executed=False) as triggers:
        for way, to in WAYS.items():
            bench.say(f"{bench.sizes.latency_messages} single messages through Airflow, {way}")
            waits = [triggers.produce_when_idle(f"idle_{to}") for _ in range(bench.sizes.latency_messages)]
            seconds = [wait.seconds for wait in waits]
            figures += [
                middle(f"message to work order, {way}, median", seconds, "s"),
                Figure(f"message to work order, {way}, worst", max(seconds), "s"),
            ]
    return figures


def files_of_one_message(bench: Bench) -> list[Figure]:
    """The files of the package that one message passes."""
    found = files.passed(bench.say)
    bench.say(", ".join(found))
    return [Figure("files on one message's way", len(found), "files", bar=Bar(62, at_most=True))]


def search_among_many(bench: Bench) -> list[Figure]:
    """Pages of many work orders by filters and words, and the counts at hand."""
    url, sizes = bench.stack.database_url, bench.sizes
    with connect(url, autocommit=True) as connection:
        many.fill(connection, sizes.search_rows, bench.say)
    found = search.measure(url, sizes.search_rows, sizes.search_rounds, bench.say)
    every = [time for times in found.milliseconds.values() for time in times]
    bar = Bar(100, at_most=True)
    return [
        Figure("all questions, 95th percentile", percentile(every, 95), "ms", bar=bar, note="of every kind as many"),
        *(
            Figure(f"{name}, 95th percentile", percentile(times, 95), "ms", note=f"median {median(times):.1f}")
            for name, times in found.milliseconds.items()
        ),
        Figure("counts by state at hand, 95th percentile", percentile(found.counted_milliseconds, 95), "ms", bar=bar),
        Figure("all counted again", found.recount_seconds, "s", note="behind the ingest"),
        Figure("words added", found.filled_per_second, "work orders/s", note="one process, behind the ingest"),
        Figure("disk for the full text", found.bytes_a_work_order, "bytes", note="a work order"),
    ]


def pages_and_metrics(bench: Bench) -> list[Figure]:
    """Pages and metrics of a busy installation, by Airflow's API server."""
    sizes = bench.sizes
    extent = busy.Extent(sizes.pages_rows, sizes.pages_outbox, sizes.pages_batches, sizes.pages_entries)
    with pages.api_server(bench.say) as stack:
        with connect(stack.database_url, autocommit=True) as connection:
            installation = busy.fill(stack, connection, extent, bench.say)
            visitor = pages.Visitor(stack.airflow_url, connection, sizes.pages_rows, installation)
        with visitor:
            return [
                *_looks(bench, visitor, sizes.pages_requests),
                *_metrics(bench, stack),
            ]


def _looks(bench: Bench, visitor: pages.Visitor, count: int) -> list[Figure]:
    visitor.warm_up()
    figures = []
    for kind, request in visitor.kinds.items():
        bench.say(f"{kind}, {count} times")
        figures += _page_figures(kind, [visitor.milliseconds(request()) for _ in range(count)])
    return figures


def _page_figures(kind: str, times: list[float]) -> list[Figure]:
    bar = Bar(300, at_most=True)
    note = f"worst {max(times):.0f}, of {len(times)}"
    return [
        Figure(f"{kind}, median", median(times), "ms"),
        Figure(f"{kind}, 95th percentile", percentile(times, 95), "ms", tuple(times), bar=bar, note=note),
    ]


def _metrics(bench: Bench, stack: LocalStack) -> list[Figure]:
    bench.say("metrics")
    times = [1000 * taken for taken in pages.seconds_to_read_metrics(stack.database_url, bench.sizes.pages_requests)]
    return [
        Figure("all metrics read, median", median(times), "ms"),
        Figure("all metrics read, 95th percentile", percentile(times, 95), "ms", bar=Bar(300, at_most=True)),
    ]


def execution(bench: Bench) -> list[Figure]:
    """Runs of a function that does nothing."""
    alone: list[float] = []
    runs: list[execute.Executed] = []
    for number in range(bench.sizes.rounds):
        bench.say(f"executing {bench.sizes.executed:,} runs, round {number + 1} of {bench.sizes.rounds}")
        alone.append(execute.pool_per_second(bench.sizes.executed))
        runs.append(execute.through_postgres(bench.stack, bench.sizes.executed))
    speeds = [run.per_second for run in runs]
    group, function, postgres = zip(*(run.microseconds for run in runs), strict=True)
    return [
        middle("runs by warm processes alone", alone, "runs/s"),
        Figure("runs claimed, started, executed, ended", median(speeds), "runs/s", tuple(speeds), bar=Bar(7000)),
        middle("overhead a run", [1e6 / speed for speed in speeds], "us"),
        middle("CPU a run, Postgres", postgres, "us", note="claim, start, end: this bounds it"),
        middle("CPU a run, the group's process", group, "us"),
        middle("CPU a run, the function's process", function, "us", note="its start included"),
    ]


def steps(bench: Bench) -> list[Figure]:
    """Runs of a function that does nothing in a step, or in a transaction of another database."""
    runs: dict[str, list[float]] = {"a step": [], "a transaction": []}
    for number in range(bench.sizes.rounds):
        for what, speeds in runs.items():
            count = bench.sizes.executed // 2
            bench.say(f"executing {count:,} runs with {what}, round {number + 1} of {bench.sizes.rounds}")
            speeds.append(execute.through_postgres(bench.stack, count, what).per_second)
    step, transaction = runs.values()
    return [
        middle("runs with a step", step, "runs/s"),
        Figure("runs with a transaction", median(transaction), "runs/s", tuple(transaction), bar=Bar(2000)),
    ]


def outbox_relay(bench: Bench) -> list[Figure]:
    """Messages from Postgres to Kafka: ours, a plain program, and Deimos's algorithm, in turns."""
    topics, sizes = Topics(bench.stack.kafka_settings), bench.sizes
    outboxes = {shards: new_outbox(bench.stack, shards=shards) for shards in (1, 2)}
    ours = outboxes[1]
    runs: dict[str, list[float]] = {way: [] for way in outbox.WAYS}
    for number in range(sizes.rounds):
        bench.say(f"outbox, {sizes.outbox_messages:,} messages, round {number + 1} of {sizes.rounds}")
        for way, (shards, fill, run) in outbox.WAYS.items():
            case = outbox.Case(outboxes[shards], topics.create(bench.topic("outbox"), 4), sizes.outbox_messages)
            with outbox.emptied(case):
                fill(case)
                runs[way].append(run(case))
    plain, deimos, once, twice = runs
    bench.say("outbox, single messages through a warm relay")
    single = outbox.Case(ours, topics.create(bench.topic("outbox"), 1), sizes.outbox_singles)
    seconds = outbox.seconds_to_consumer(single)
    return [
        middle(plain, runs[plain], "messages/s", note="cannot continue after a crash"),
        middle(deimos, runs[deimos], "messages/s", note="at least once"),
        against(once, runs[once], runs[plain], plain),
        against(once, runs[once], runs[deimos], deimos),
        against(twice, runs[twice], runs[plain], plain, Bar(0.5)),
        against(twice, runs[twice], runs[deimos], deimos, Bar(1)),
        middle("commit to consumer, median", seconds, "s", note="single messages"),
        Figure("commit to consumer, worst", max(seconds), "s"),
        *_enqueue(bench, ours),
        *_with_a_backlog(bench, topics),
    ]


def _enqueue(bench: Bench, ours: Outbox) -> list[Figure]:
    bench.say("outbox, what enqueueing costs the writer")
    case = outbox.Case(ours, "bench-enqueued", bench.sizes.outbox_enqueued)
    costs = {together: 1e6 * outbox.enqueue_seconds(case, together) for together in (1, 100)}
    return [Figure(f"enqueue, {n} a call", cost, "µs a message") for n, cost in costs.items()]


def _with_a_backlog(bench: Bench, topics: Topics) -> list[Figure]:
    sizes, speeds = bench.sizes, []
    for waiting in (sizes.outbox_messages, sizes.outbox_backlog):
        bench.say(f"outbox, {waiting:,} messages waiting")
        case = outbox.Case(new_outbox(bench.stack), topics.create(bench.topic("outbox"), 4), waiting)
        with outbox.emptied(case):
            outbox.fill_ours(case)
            speeds.append(outbox.ours_of_backlog(case, sizes.outbox_messages // 2))
    few = f"{sizes.outbox_messages:,} waiting"
    return [
        Figure(f"outbox, {few}", speeds[0], "messages/s"),
        against(f"outbox, {sizes.outbox_backlog:,} waiting", speeds[1:], speeds[:1], few, Bar(0.8)),
    ]


def command_line_start(bench: Bench) -> list[Figure]:
    """Commands of the command line whose work takes no time: what is measured is their start."""
    bench.say(f"the start of the command line, {bench.sizes.commands} times a command")
    return [
        Figure(name, median(taken), "s", tuple(taken), bar=Bar(limit, at_most=True))
        for name, (arguments, limit) in cli_start.COMMANDS.items()
        if (taken := cli_start.seconds(bench.stack, arguments, bench.sizes.commands))
    ]


BENCHMARKS: dict[str, Callable[[Bench], list[Figure]]] = {
    "copy": copy,
    "create_for": create_work_orders,
    "dedup": duplicates_and_order,
    "spark": spark,
    "virtual": virtual_partitions,
    "formats": formats_of_messages,
    "server_memory": memory_of_server,
    "claim": claim_runs,
    "execute": execution,
    "steps": steps,
    "outbox": outbox_relay,
    "latency": idle_trigger,
    "steady": steady_trigger,
    "trickle": many_steady_triggers,
    "cost": cost_of_triggers,
    "drain": drained_backlog,
    "million": million_messages,
    "idle_stack": idle_whole_stack,
    "files": files_of_one_message,
    "search": search_among_many,
    "pages": pages_and_metrics,
    "cli_start": command_line_start,
}
