"""What Airflow needs of every trigger type: provider information, connections, the DAG factory, retries."""
