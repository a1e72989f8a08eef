"""Each older Spark that the package supports: its jars, and the tests of everything that touches Spark."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from local_stack import jars
from local_stack.stack import CHECKOUT
from workorders.kafka.spark.cache import make_cache_folder

_UV = Path(sys.executable).with_name("uv")
_SECONDS = 900
_EXTRAS = "airflow,kafka,formats,spark,stack,test"
_INSTALLED = """
import json
from importlib.metadata import version
print(json.dumps([version(name) for name in ("pyspark", "pyspark-client", "apache-airflow")]))
"""


def create_environment(folder: Path, spark: str) -> Path:
    """Return the Python of a new environment with this PySpark and an editable installation of this checkout.

    The range of versions in setup.cfg must allow it, or uv finds no solution.
    """
    constraints = folder / "constraints.txt"
    folder.mkdir(parents=True)
    constraints.write_text(_locked_without_spark(), encoding="utf-8")
    _run(_UV, "venv", "--quiet", "--python", sys.executable, folder / "environment")
    python = folder / "environment" / "bin" / "python"
    _run(
        *(_UV, "pip", "install", "--quiet", "--python", python, "--constraint", constraints),
        *("--editable", f"{CHECKOUT}[{_EXTRAS}]", f"pyspark=={spark}", f"pyspark-client=={spark}"),
    )
    return python


def installed_versions(python: Path) -> list[str]:
    """Return the versions of PySpark, of its client, and of Airflow in an environment."""
    versions: list[str] = json.loads(_run(python, "-c", _INSTALLED))
    return versions


def _locked_without_spark() -> str:
    """Return the locked versions without hashes, because those of another Spark are in no lock."""
    lines = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = [line.removesuffix(" \\") for line in lines if re.match(r"[a-z0-9]", line)]
    return "\n".join(line for line in locked if not line.startswith(("pyspark==", "pyspark-client==")))


def _run(*command: str | Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


SECONDS = 3600
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(SECONDS)]

HERE = Path(__file__).parent
SPARKS = {names[0].rpartition(":")[2]: names for names in jars.EXPLICIT.values()}
"""The jars of each Spark, by its version."""
OLDER = sorted(SPARKS.keys() - {version("pyspark")})
SUBMITTED_AND_CONNECTED = ("test_driver.py", "test_virtual_partitions.py", "../ingest/test_odd_messages.py")
"""Each of their tests runs with both types of Spark connection."""
OTHERS = (
    "test_class_archive.py",
    "test_connect.py",
    "test_connect_kafka_client.py",
    "test_memory.py",
    "test_network.py",
    "../ingest/test_formats.py",
)


@pytest.fixture(scope="module", params=OLDER)
def spark(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def python(spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of an environment with that Spark, next to its own cache for what fits no other environment."""
    folder = tmp_path_factory.mktemp("spark")
    made = create_environment(folder / "spark", spark)
    assert installed_versions(made) == [spark, spark, version("apache-airflow")]
    for downloads in ("jars", "registry"):
        shared = make_cache_folder(downloads)
        own = cache_of(made) / "workorders" / downloads
        own.parent.mkdir(parents=True, exist_ok=True)
        own.symlink_to(shared)
    yield made
    shutil.rmtree(folder)  # about a gigabyte


def cache_of(python: Path) -> Path:
    return python.parents[2] / "cache"


def test_spark_downloads_its_kafka_source(spark: str, python: Path, tmp_path: Path) -> None:
    if any(":spark-" in name and not name.endswith(f":{spark}") for name in SPARKS[spark]):
        pytest.skip(f"Maven Central has not all jars of {spark}, so the lock has one of another version.")
    done = run(python.with_name("workorders"), "spark", "jars", tmp_path)
    assert done.returncode == 0, done.stderr
    # Spark puts the group before the name that a jar has on Maven Central.
    downloaded = {path.name for path in tmp_path.glob("*.jar")}
    assert downloaded == {"{}_{}-{}.jar".format(*name.split(":")) for name in SPARKS[spark]}


def test_what_touches_spark_works(python: Path) -> None:
    assert_tests_pass(python, *SUBMITTED_AND_CONNECTED, *OTHERS)


def test_executors_of_a_cluster_get_the_package(python: Path) -> None:
    # Of the module with many, one is enough: the others show what does not depend on where Spark's executors are.
    wanted = "test_each_session_brings or (test_every_visible_message and spark_cluster)"
    assert_tests_pass(python, "test_connect_cluster.py", "test_driver.py", "-m", "long", "-k", wanted)


def assert_tests_pass(python: Path, *arguments: str) -> None:
    chosen = [(HERE / name).resolve() if name.endswith(".py") else name for name in arguments]
    done = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)
    assert done.returncode == 0, done.stdout[-10_000:]


def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    # This process may be a worker of pytest-xdist, whose variables would make the other pytest one as well.
    own = {name for name in os.environ if name.startswith("PYTEST_")} | {"PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**environment, "XDG_CACHE_HOME": str(cache_of(Path(command[0])))},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
