"""The processes of a stack's Spark applications."""

import psutil

from local_stack.stack import LocalStack


def spark_applications(stack: LocalStack) -> list[psutil.Process]:
    """Return the Java processes of the Spark applications that run."""
    processes = psutil.Process(stack.supervisor_pid).children(recursive=True)
    return [process for process in processes if {"org.apache.spark.deploy.SparkSubmit", "--batch"} <= _words(process)]


def executors(stack: LocalStack) -> list[psutil.Process]:
    """Return the processes in which Spark applications run our Python, each forked from its application's daemon."""
    try:
        family = [process for one in spark_applications(stack) for process in one.children(recursive=True)]
        pythons = [process for process in family if "pyspark.daemon" in _words(process)]
        return [process for process in pythons if process.ppid() in {python.pid for python in pythons}]
    except psutil.NoSuchProcess:
        return []  # an application has just ended, and will be gone at the next look


def _words(process: psutil.Process) -> set[str]:
    """Return the words of a process's command line; none of one that has just ended."""
    try:
        return set(process.cmdline())
    except psutil.NoSuchProcess:
        return set()
