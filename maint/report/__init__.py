"""Reports of runs, checks and sites, for people and for machines."""
