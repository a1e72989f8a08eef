"""Submits to Spark with secrets in the process's environment alone."""

import os
from collections.abc import Mapping
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook


class SecretEnvironmentHook(SparkSubmitHook):
    """Airflow's own hook, which in addition hands secrets to the process that it starts.

    Its `env_vars` are a template field, so Airflow stores and shows them, and for some masters they become arguments.
    These variables exist in no attribute of the operator, in no argument and in no log.
    """

    _secrets: Mapping[str, str]

    @classmethod
    def like(cls, hook: SparkSubmitHook, secrets: Mapping[str, str]) -> "SecretEnvironmentHook":
        """Return a hook that is set up as the given one, whose dozens of arguments are not spelled out again."""
        made = cls.__new__(cls)
        made.__dict__.update(hook.__dict__)
        made._secrets = dict(secrets)
        return made

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Submit with the secrets added to the environment that the hook would use."""
        environment = {**os.environ, **(self._env or {}), **self._secrets}
        # The hook would replace what is passed here by an environment of its own if that were set.
        self._env = None
        return super().submit(application, env=environment, **kwargs)
