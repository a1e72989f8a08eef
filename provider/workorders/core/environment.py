"""Names of environment variables that several parts read; the command line needs them before any of these parts."""

from typing import Final

DATABASE_URL_VARIABLE: Final = "WORKORDERS_DATABASE_URL"
"""The libpq URI of the database that holds the work orders. It may hold a password."""

TRIGGERS_VARIABLE: Final = "WORKORDERS_TRIGGERS"
"""The folder of the trigger files."""

WORKFLOWS_VARIABLE: Final = "WORKORDERS_WORKFLOWS"
"""The folder of the workflow files."""

WORKFLOW_MODULES_VARIABLE: Final = "WORKORDERS_WORKFLOW_MODULES"
"""The modules of the decorated functions, with commas between them."""

SPARK_JARS_VARIABLE: Final = "WORKORDERS_SPARK_JARS"
"""The paths of the jars of Spark's Kafka source, with commas between them."""

SPARK_APPS_VARIABLE: Final = "WORKORDERS_SPARK_APPS"
"""The folder of a Spark application of one's own; the package's is used if not given."""
