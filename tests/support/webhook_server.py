"""The webhooks behind a real server in a separate process, as Airflow's API server mounts them: `PORT`.

The environment has the connections, as for Airflow.
"""

import sys

import uvicorn
from fastapi import FastAPI

from workorders.airflow.plugin import web_apps


def main() -> None:
    """Serve until the process is ended."""
    server = FastAPI()
    for app in web_apps():
        server.mount(app["url_prefix"], app["app"])
    uvicorn.run(server, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
