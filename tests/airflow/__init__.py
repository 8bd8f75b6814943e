"""What runs on Apache Airflow, as far as it needs none."""
