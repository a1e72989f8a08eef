"""Holds no example Dags.

With `[core] load_examples`, which is on by default, Airflow imports a package with the name of each provider's
distribution and looks there for example Dags. Without this package, every component and every task would log an error.
"""
