"""An archive of the classes that Spark's JVM loads: with it, a `spark-submit` needs a third less CPU to start.

Java maps such an archive (JEP 350) in place of reading and checking 15,000 classes from jars. It fits one Java and one
class path, so its name is made of both, and it is in the cache folder next to the jars.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from local_stack.errors import StackError
from local_stack.jars import cache_folder
from local_stack.java import Java

_TRAINING = Path(__file__).with_name("class_data_training.py")
_TRAINING_SECONDS = 600.0


def archive(java: Java, *, cache: Path | None = None, say: Callable[[str], None] = print) -> Path:
    """Return the archive for this Java and the installed PySpark; make it first if there is none.

    Raises:
        StackError: It could not be made.
    """
    folder = (cache or cache_folder()).with_name("class-data")
    path = folder / f"spark-{_fingerprint(java)}.jsa"
    if not path.exists():
        say("Making an archive of Spark's classes, once for this installation ...")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="training-", dir=folder) as scratch:
            made = Path(scratch) / path.name
            _train(java, made)
            # In one step: another stack may make the same archive at the same time.
            made.replace(path)
    return path


def java_options(archive: Path) -> str:
    """Return the options of a JVM that uses the archive; where it does not fit, the JVM starts without it."""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto"


def _fingerprint(java: Java) -> str:
    """Return what the archive depends on: the Java, and the jars in the order in which a `*` gives them to it."""
    version = subprocess.run([java.program, "-version"], capture_output=True, text=True, check=False).stderr
    jars = _spark_home() / "jars"
    names = [(name, (jars / name).stat()) for name in os.listdir(jars)]  # noqa: PTH208 - iterdir promises no order
    seen = repr((version, str(jars), [(name, stat.st_size, stat.st_mtime_ns) for name, stat in names]))
    return hashlib.sha256(seen.encode()).hexdigest()[:16]


def _spark_home() -> Path:
    # Found without an import, which takes half a second.
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise StackError("PySpark is not installed here; nothing was started; run `make install`.")
    return Path(found.origin).parent


def _train(java: Java, made: Path) -> None:
    """Run a small Spark application whose JVM writes the archive when it ends."""
    program = Path(sys.executable).with_name("spark-submit")
    done = subprocess.run(
        [program, "--master", "local[1]", _TRAINING],
        env={**_environment(java), "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TRAINING_SECONDS,
    )
    if done.returncode != 0 or not made.exists():
        raise StackError(
            f"The archive of Spark's classes could not be made: spark-submit ended with exit code "
            f"{done.returncode}. Its output ends with\n{done.stderr[-2000:]}"
        )


def _environment(java: Java) -> Mapping[str, str]:
    # As the stack's own: nothing listens on anything but loopback.
    return {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }
