"""The code of this package that a process has, and how it travels: Spark's Python workers must run the task's."""

import compileall
import py_compile
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

import workorders
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark.cache import cache_folder, make_cache_folder

_FOLDER = "package"
_CODE = (".py", ".sql")
_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH


@cache
def installed_package() -> str:
    """Return the version and a digest of the package's files, such as `0.1.0 (5f0c1e2a9b44)`.

    A version alone does not tell a checkout from the same checkout a minute later, and a running server keeps the code
    that it has loaded. Call it before the files can change: it is read once per process.
    """
    return f"{workorders.__version__} ({_digest()})"


def package_archive() -> Path:
    """Return a zip file of this package, which Spark sends to executors whose Python lacks it; make it if needed.

    It is in the cache folder under the package's digest. It has byte code as well: an executor starts a Python process
    for each of its tasks, and would compile each module in each of them.

    Raises:
        ConfigurationError: the package's files change meanwhile.
    """
    digest = _digest()
    path = cache_folder(_FOLDER) / f"workorders-{digest}.zip"
    if not path.exists():
        folder = make_cache_folder(_FOLDER)
        with tempfile.TemporaryDirectory(prefix="new-", dir=folder) as scratch, as_file(files(workorders)) as here:
            copy = Path(scratch) / "root" / "workorders"
            shutil.copytree(here, copy, ignore=shutil.ignore_patterns("__pycache__"))
            if _digest_of(copy) != digest:
                raise ConfigurationError(
                    f"The package's files in {here} are not those that this process began with; nothing was committed. "
                    f"Try again when the installation is done."
                )
            # Next to the sources, where a zip file is searched for it. Unchecked, because nothing in there changes.
            compileall.compile_dir(copy, quiet=1, legacy=True, invalidation_mode=_UNCHECKED)
            made = shutil.make_archive(str(Path(scratch) / "made"), "zip", copy.parent)
            Path(made).replace(path)  # in one step: another process may make the same archive
    return path


@cache
def _digest() -> str:
    return _digest_of(files(workorders))


def _digest_of(folder: Traversable) -> str:
    digest = sha256()
    for name, file in sorted(_code(folder)):
        digest.update(name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _code(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the names and files of the code; the package may be in a zip file."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _code(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_CODE):
            yield f"{prefix}{entry.name}", entry
