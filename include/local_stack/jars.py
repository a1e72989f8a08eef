"""The pinned jars of Kafka and of Spark's Kafka source: lock file, download, cache.

``jars.lock`` names every jar with the SHA-256 of its content. A jar enters the cache only after its content was
compared with the lock, under a folder named by that checksum, so that a file in the cache needs no second look and a
stack with a full cache starts without a network.
"""

import hashlib
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import requests
from jgo.maven import MavenContext

from local_stack.errors import StackError
from workorders.kafka.spark import kafka_source
from workorders.kafka.spark.cache import make_cache_folder

LOCK_FILE = Path(__file__).with_name("jars.lock")
SPARK_LOCK_FILE = Path(str(kafka_source.LOCK_FILE))
"""Part of the package, whose `workorders spark jars` compares with it as well."""

#: The jars to resolve together with everything they need at run time.
RESOLVED = {
    # 4.4.0 lacks a jar on Maven Central. Without slf4j-simple the broker would log nothing: it brings no SLF4J binding.
    "kafka": ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"),
}

#: The jars to take as they are, because pyspark brings the rest: those of each version of pyspark that the tests use.
EXPLICIT = {
    # Maven Central lacks the token provider of 4.0.1.
    "spark_4_0": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.0",
    ),
    "spark_4_1": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.1",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
    "spark_4_2": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
}

_HEADER = """\
# Jars: group, Maven coordinate, SHA-256 of the content.
# Written by `make lock-jars`; the module that names this file has the coordinates it starts from.
"""

_LINE = re.compile(r"(?P<group>\w+) +(?P<coordinate>[^\s:]+:[^\s:]+:[^\s:]+) +sha256:(?P<sha256>[0-9a-f]{64})")
_PARALLEL_DOWNLOADS = 8
_DOWNLOAD_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, kw_only=True, order=True)
class Jar:
    """One line of the lock file."""

    #: Who uses the jar: ``kafka`` (the broker), ``spark_4_2`` (that Spark's source), or ``connect`` (a benchmark).
    group: str
    #: Maven coordinate ``group:artifact:version``.
    coordinate: str
    #: SHA-256 of the jar's content, in hexadecimal digits.
    sha256: str

    @property
    def filename(self) -> str:
        """The jar's name on Maven Central."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    def path(self, cache: Path) -> Path:
        """Where the jar is in a cache folder once its content has been compared with the lock."""
        return cache / self.sha256[:16] / self.filename


def spark_group() -> str:
    """Return the group of Spark's jars for the pyspark that is installed here."""
    major, minor, _ = version("pyspark").split(".", maxsplit=2)
    return f"spark_{major}_{minor}"


def parse_lock(text: str) -> tuple[Jar, ...]:
    """Read the text of a lock file.

    Raises:
        StackError: A line is neither a comment nor ``group coordinate sha256:digits``.
    """
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise StackError(
                f"Line {number} of {LOCK_FILE.name} is not `group coordinate sha256:digits`; nothing was downloaded; "
                "run `make lock-jars` to write the file again."
            )
        jars.append(Jar(**match.groupdict()))
    return tuple(jars)


def format_lock(jars: Iterable[Jar]) -> str:
    """Return the text of the lock file that holds these jars, in an order that does not depend on theirs."""
    return _HEADER + "".join(f"{jar.group} {jar.coordinate} sha256:{jar.sha256}\n" for jar in sorted(jars))


def fetch(group: str, *, cache: Path | None = None, lock: Path | None = None) -> list[Path]:
    """Return the files of one group of a lock, in its order; download those that the cache does not hold.

    Args:
        group: Who uses the jars.
        cache: The folder of downloaded jars; one outside any checkout unless given.
        lock: The lock file; that of the local stack unless given.

    Raises:
        StackError: A jar could not be downloaded, or its content differs from the lock.
    """
    folder = cache or make_cache_folder("jars")
    file = lock or (SPARK_LOCK_FILE if group.startswith("spark") else LOCK_FILE)
    jars = [jar for jar in parse_lock(file.read_text(encoding="utf-8")) if jar.group == group]
    missing = [jar for jar in jars if not jar.path(folder).exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
            list(pool.map(lambda jar: download(jar, folder), missing))
    return [jar.path(folder) for jar in jars]


def download(jar: Jar, cache: Path) -> Path:
    """Download one jar, compare it with the lock and move it into the cache in one step; return its path there.

    Raises:
        StackError: The jar could not be downloaded, or its content differs from the lock.
    """
    with tempfile.TemporaryDirectory(prefix="download-", dir=cache) as scratch:
        downloaded = _download(jar.coordinate, Path(scratch))
        return admit(jar, downloaded, cache)


def admit(jar: Jar, downloaded: Path, cache: Path) -> Path:
    """Move a downloaded file into the cache if its content matches the lock; return its path there.

    Raises:
        StackError: The content differs from the lock. The cache is as it was.
    """
    found = sha256_of(downloaded)
    if found != jar.sha256:
        raise StackError(
            f"The downloaded {jar.filename} has the checksum {found} where {LOCK_FILE.name} has {jar.sha256}; it was "
            "not put into the cache; try again, and if it stays so, do not use what the repository sends."
        )
    target = jar.path(cache)
    target.parent.mkdir(exist_ok=True)
    # Two stacks may download the same jar at once: the same content twice, each moved in one step.
    downloaded.replace(target)
    return target


def resolve_lock(
    resolved: Mapping[str, Sequence[str]] = RESOLVED,
    explicit: Mapping[str, Sequence[str]] = EXPLICIT,
    *,
    without: tuple[str, ...] = (),
) -> tuple[Jar, ...]:
    """Resolve and download all jars again and return the content of a lock file, that of the local stack by default.

    Args:
        resolved: The jars to resolve, by group, together with everything they need at run time.
        explicit: The jars to take as they are, by group.
        without: How the coordinates begin that are left out.
    """
    with tempfile.TemporaryDirectory(prefix="workorders-jars-") as scratch:
        folder = Path(scratch)
        coordinates = [(group, name) for group, roots in resolved.items() for name in _transitive(roots, folder)]
        coordinates += [(group, name) for group, names in explicit.items() for name in names]
        return tuple(
            Jar(group=group, coordinate=name, sha256=sha256_of(_download(name, folder)))
            for group, name in coordinates
            if not name.startswith(without)
        )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _transitive(roots: Sequence[str], folder: Path) -> list[str]:
    """Return the coordinates of these jars and of all they need at run time."""
    context = MavenContext(repo_cache=folder, timeout=_DOWNLOAD_TIMEOUT_SECONDS)
    dependencies = [context.create_dependency(root) for root in roots]
    _, nodes = context.resolver.get_dependency_list(dependencies)
    found = {f"{node.dep.groupId}:{node.dep.artifactId}:{node.dep.version}" for node in nodes}
    return sorted(found | set(roots))


def _download(coordinate: str, folder: Path) -> Path:
    """Return the file of one coordinate in a folder of Maven's layout, downloaded unless it is there."""
    context = MavenContext(repo_cache=folder, timeout=_DOWNLOAD_TIMEOUT_SECONDS)
    try:
        return Path(context.create_dependency(coordinate).artifact.resolve())
    except (requests.RequestException, RuntimeError) as error:
        raise StackError(
            f"The jar {coordinate} could not be downloaded from Maven Central ({error}); nothing was started; check "
            "the network and try again."
        ) from error
