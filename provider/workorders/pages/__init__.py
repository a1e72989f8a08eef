"""The pages in Airflow's UI: what needs a person, and what a person can do about it. Served by Airflow's API server."""
