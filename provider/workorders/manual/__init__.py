"""Work orders that people create: by a form in Airflow, or by the command line."""
