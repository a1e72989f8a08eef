"""The containers of docker-compose.yaml, with ports, secrets, and folders of definitions of the caller's own."""

import json
import re
import secrets
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from local_stack.ports import LOOPBACK, free_port
from local_stack.stack import CHECKOUT
from support import stand_ins
from support.docker_daemon import find_compose

COMPOSE_FILE: Final = CHECKOUT / "docker-compose.yaml"
DOCKERFILE: Final = CHECKOUT / "include" / "containers" / "Dockerfile"
_EXAMPLE: Final = DOCKERFILE.with_name("example.env")
OWN_IMAGE: Final = "airflow-provider-workorders"
ONCE: Final = ("prepare",)
"""The services that do something and end."""
_BUILD_SECONDS = 2400.0
_SECONDS = 600.0


def published_images() -> list[str]:
    """Return the names of the images that the containers are made of, with digests."""
    services = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))["services"].values()
    used = {service["image"] for service in services} - {OWN_IMAGE}
    return sorted(used | set(re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)))


@dataclass(frozen=True)
class ComposeStack:
    """The containers, once `up` was called.

    Args:
        environment: by which `docker` finds a daemon.
        folder: of what the stack needs beside the checkout.
        triggers: folder of trigger files.
        workflows: folder of workflow files.
    """

    environment: Mapping[str, str]
    folder: Path
    triggers: Path
    workflows: Path
    project: str = field(default_factory=lambda: f"workorders-{secrets.token_hex(4)}")
    ports: Mapping[str, int] = field(
        default_factory=lambda: {f"{name}_PORT": free_port() for name in ("POSTGRES", "KAFKA", "AIRFLOW")}
    )
    passwords: Mapping[str, str] = field(
        default_factory=lambda: {
            **{name: secrets.token_hex(16) for name in re.findall(r"^(\w+)=$", _EXAMPLE.read_text(), re.MULTILINE)},
            "AIRFLOW_FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }
    )

    @property
    def services(self) -> dict[str, Any]:
        """The services of the file, by name."""
        services: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))["services"]
        return services

    @property
    def kafka_settings(self) -> dict[str, str | int | float | bool]:
        """The settings, in librdkafka's names, that a Kafka client on this machine needs."""
        return {"bootstrap.servers": f"{LOOPBACK}:{self.ports['KAFKA_PORT']}"}

    @property
    def database_url(self) -> str:
        """The libpq URI of the database that holds the work orders, as their writer. It holds a password."""
        return self.database_url_of("workorders_writer", self.passwords["WORKORDERS_WRITER_PASSWORD"])

    @property
    def airflow_url(self) -> str:
        """The address of Airflow's pages and of its API."""
        return f"http://{LOOPBACK}:{self.ports['AIRFLOW_PORT']}"

    @property
    def airflow_login(self) -> tuple[str, str]:
        """The user, and the password that Airflow has made for it."""
        path = self.services["api-server"]["environment"]["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]
        return "admin", json.loads(self.execute("api-server", "cat", path))["admin"]

    def database_url_of(self, role: str, password: str) -> str:
        """Return the URI of the work orders' database for a role."""
        return f"postgresql://{role}:{password}@{LOOPBACK}:{self.ports['POSTGRES_PORT']}/workorders"

    def build(self) -> None:
        """Build the image, from stand-ins for the published ones if no registry gives them."""
        images = published_images()
        if stand_ins.are_published(images, self.environment):
            self._write(lambda text: text, {})
        else:
            self._write(stand_ins.without_digests, {"dockerfile": str(self.folder / "Dockerfile"), "network": "host"})
            stand_ins.build(images, self.folder / "stand-ins", self.environment)
        self.compose("build", "api-server", seconds=_BUILD_SECONDS)

    def up(self) -> None:
        """Start the containers that do not run."""
        self.compose("up", "--detach", "--no-build")

    def down(self, *, with_data: bool) -> None:
        """Stop and remove the containers and networks, and the volumes on request."""
        self.compose("down", "--timeout", "30", "--remove-orphans", *(["--volumes"] if with_data else []))

    def remove_stand_ins(self) -> None:
        """Remove the images that `build` has made because no registry gave them."""
        if (self.folder / "stand-ins").exists():
            stand_ins.remove([OWN_IMAGE, *published_images()], self.environment)

    def compose(self, *arguments: str, seconds: float = _SECONDS) -> str:
        """Run a command of Compose; return what it has printed."""
        files = ("--file", str(self.folder / "docker-compose.yaml"), "--file", str(self.folder / "override.yaml"))
        options = ("--project-name", self.project, "--project-directory", str(CHECKOUT), *files)
        return self._run([*find_compose(self.environment), *options, *arguments], seconds)

    def execute(self, service: str, *command: str) -> str:
        """Run a command in a container; return what it has printed."""
        return self._run(["docker", "exec", self.container(service), *command], _SECONDS)

    def container(self, service: str) -> str:
        """Return the id of a service's container, which may have ended."""
        labels = (f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}")
        filters = [f"--filter=label={label}" for label in labels]
        return self._run(["docker", "ps", "--all", "--quiet", *filters], _SECONDS).strip()

    def state(self, service: str) -> dict[str, Any]:
        """Return the state of a service's container as Docker shows it; empty before it is created."""
        container = self.container(service)
        if not container:
            return {}
        state: dict[str, Any] = json.loads(
            self._run(["docker", "inspect", "--format", "{{json .State}}", container], _SECONDS)
        )
        return state

    def is_well(self, service: str) -> bool:
        """Return whether a service is healthy, or has ended well if it is to end."""
        state = self.state(service)
        if service in ONCE:
            return state.get("Status") == "exited" and state.get("ExitCode") == 0
        return bool(state.get("Health", {}).get("Status") == "healthy")

    def _write(self, change: Any, build: dict[str, str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in (COMPOSE_FILE, DOCKERFILE):
            (self.folder / file.name).write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
        volumes = [
            f"{self.triggers}:/opt/workorders/include/triggers:ro",
            f"{self.workflows}:/opt/workorders/include/workflows:ro",
        ]
        ours = [name for name, service in self.services.items() if service["image"] == OWN_IMAGE]
        override = {name: {"volumes": volumes, **({"build": build} if build else {})} for name in ours}
        (self.folder / "override.yaml").write_text(yaml.safe_dump({"services": override}), encoding="utf-8")

    def _run(self, command: list[str], seconds: float) -> str:
        ports = {name: str(port) for name, port in self.ports.items()}
        done = subprocess.run(
            command,
            env={**self.environment, **ports, **self.passwords},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout
