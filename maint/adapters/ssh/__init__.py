"""Hosts over SSH, with Fabric."""
