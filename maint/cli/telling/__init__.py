"""Telling those outside how a site fares: outcomes, metrics, notices."""
