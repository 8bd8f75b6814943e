"""The monitoring of a site: outcomes of commands, metrics, notices."""
