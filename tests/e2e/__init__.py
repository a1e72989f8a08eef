"""End-to-end tests with the real Airflow; a package, so that their stack ends with them."""
