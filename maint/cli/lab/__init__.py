"""`maint lab`: the simulated site, for rehearsals."""
