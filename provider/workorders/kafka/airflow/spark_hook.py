"""Submits to Spark with secrets in the process's environment alone."""

from collections.abc import Mapping

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from workorders.core.exceptions import ConfigurationError


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

    def _build_spark_submit_command(self, application: str) -> list[str]:
        """Build the command, and add the secrets to the environment of the process that runs it.

        Raises:
            ConfigurationError: the driver would run elsewhere, where this environment does not reach.
        """
        if self._connection["deploy_mode"] == "cluster":
            raise ConfigurationError(
                f"The Spark connection {self._conn_id} has the deploy mode cluster, where a driver gets its secrets "
                f"from stored arguments only; use the deploy mode client, whose executors may be anywhere."
            )
        command: list[str] = super()._build_spark_submit_command(application)
        # Only now: while the hook builds the command it sets its environment anew, and for some masters it turns that
        # into arguments.
        self._env = {**(self._env or {}), **self._secrets}
        return command
