"""Executes runs. Callables run in separate processes, so that no run can affect another one.

Nothing here depends on Airflow; a task of Airflow, a test or a benchmark calls the same functions.
"""
