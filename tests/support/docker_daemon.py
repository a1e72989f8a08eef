"""A Docker daemon for tests: the one of this machine, or else a separate one that leaves nothing behind."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from local_stack.waiting import wait_until

PACKAGES = ("docker.io", "docker-compose", "debootstrap", "iptables", "iproute2")
_PROGRAMS = ("docker", "dockerd", "debootstrap", "iptables-save", "ip")
_SECONDS = 60.0
_STOP_SECONDS = 60.0
_INSTALL_SECONDS = 900.0
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


@contextmanager
def docker_daemon() -> Iterator[Mapping[str, str]]:
    """Yield the environment by which `docker` finds a daemon.

    Without a daemon on this machine, root starts one, and installs Debian's packages if they are missing. When the
    context is left, its images, containers, networks, and rules of the firewall are removed.
    """
    if _answers(os.environ):
        yield os.environ
        return
    if os.geteuid() != 0:
        pytest.skip("There is no Docker daemon, and only root can start one.")
    _install()
    # Not below pytest's own folders, which are kept for a while: the images take some gigabytes.
    with TemporaryDirectory(prefix="workorders-docker-", dir="/var/tmp") as folder, _restored_network():
        yield from _own_daemon(Path(folder))


def find_compose(environment: Mapping[str, str]) -> list[str]:
    """Return how Compose is called here: as a part of `docker`, or as Debian's older program."""
    done = subprocess.run(["docker", "compose", "version"], env=environment, capture_output=True, check=False)
    return ["docker", "compose"] if done.returncode == 0 else ["docker-compose"]


def _answers(environment: Mapping[str, str]) -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "info"], env=environment, capture_output=True, check=False)
    return done.returncode == 0


def _install() -> None:
    if all(map(shutil.which, _PROGRAMS)) and shutil.which("docker-compose"):
        return
    if shutil.which("apt-get") is None:
        pytest.skip(f"There is no Docker daemon, and no apt-get to install {', '.join(PACKAGES)}.")
    # Without a run level, no package starts its own service.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["apt-get", "--quiet", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_SECONDS,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _own_daemon(folder: Path) -> Iterator[Mapping[str, str]]:
    address = f"unix://{folder}/docker.sock"
    environment = {**os.environ, "DOCKER_HOST": address}
    command = [
        *("dockerd", "--host", address, "--data-root", str(folder / "data"), "--exec-root", str(folder / "run")),
        *("--pidfile", str(folder / "docker.pid"), "--oom-score-adjust", "0"),
    ]
    log = folder / "dockerd.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        assert wait_until(lambda: process.poll() is not None or _answers(environment), seconds=_SECONDS)
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        yield environment
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_STOP_SECONDS)
        _unmount_below(folder)


def _unmount_below(folder: Path) -> None:
    """Unmount what the daemon leaves mounted when it ends: the network of containers that have the machine's own."""
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in places:
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", place], check=True)


@contextmanager
def _restored_network() -> Iterator[None]:
    """Remove the bridge, the rules, and the forwarding that a daemon sets up, if there were none before."""
    had_bridge = Path("/sys/class/net/docker0").exists()
    forwarding = _FORWARDING.read_text()
    rules = {name: _output(f"{name}-save") for name in ("iptables", "ip6tables")}
    try:
        yield
    finally:
        for name, saved in rules.items():
            subprocess.run([f"{name}-restore"], input=_empty(_output(f"{name}-save"), saved), check=True, text=True)
        if not had_bridge:
            subprocess.run(["ip", "link", "delete", "docker0"], check=False, capture_output=True)
        _FORWARDING.write_text(forwarding)


def _empty(now: str, before: str) -> str:
    """Return the rules of before, and an empty table for each that exists only now."""
    tables = {line[1:] for line in now.splitlines() if line.startswith("*")}
    known = {line[1:] for line in before.splitlines() if line.startswith("*")}
    return before + "".join(f"*{table}\nCOMMIT\n" for table in sorted(tables - known))


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
