"""Which code of this package a process runs: Spark's Python workers must run that of the task that calls them."""

from functools import cache
from hashlib import sha256
from pathlib import Path

import workorders


@cache
def installed_package() -> str:
    """Return the version and a digest of the package's files, such as `0.1.0 (5f0c1e2a9b44)`.

    A version alone does not tell a checkout from the same checkout a minute later, and a running server keeps the code
    that it has loaded. Call it before the files can change: it is read once per process.
    """
    root = Path(workorders.__file__).parent
    digest = sha256()
    for path in sorted(path for suffix in ("py", "sql") for path in root.rglob(f"*.{suffix}")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return f"{workorders.__version__} ({digest.hexdigest()[:12]})"
