"""Telling somebody outside: one module for each way, and the sender that knows them all."""
