"""Postgres, a Kafka broker and Airflow on this machine, without root or containers, for the demo and the tests.

``local_stack.stack.LocalStack`` is the whole of it; ``python -m local_stack up`` keeps one running.
"""
