"""Works through runs: callables in processes of their own, so that what one of them does hurts no other run.

Nothing here knows Airflow; a task there, a test or a benchmark calls the same functions.
"""
