"""Cluster maintenance for Cloudera-style data platforms."""

__version__ = "0.3.26"
