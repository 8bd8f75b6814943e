"""Virtual clusters of the lab: gateway, jobs API, and jobs that really run."""
