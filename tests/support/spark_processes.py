"""The processes of a stack's Spark applications."""

import psutil

from local_stack.stack import LocalStack


def spark_applications(stack: LocalStack) -> list[psutil.Process]:
    """Return the Java processes of the Spark applications that run."""
    processes = psutil.Process(stack.supervisor_pid).children(recursive=True)
    return [process for process in processes if {"org.apache.spark.deploy.SparkSubmit", "--batch"} <= _words(process)]


def executing(stack: LocalStack) -> list[psutil.Process]:
    """Return the Spark application that runs and its descendants, once its executor's Python is among them."""
    for application in spark_applications(stack):
        descendants = application.children(recursive=True)
        if any("pyspark.daemon" in _words(process) for process in descendants):
            return [application, *descendants]
    return []


def _words(process: psutil.Process) -> set[str]:
    """Return the words of a process's command line; none of one that has just ended."""
    try:
        return set(process.cmdline())
    except psutil.NoSuchProcess:
        return set()
