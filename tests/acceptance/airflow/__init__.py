"""Real Airflow runs what maint prints for it."""
