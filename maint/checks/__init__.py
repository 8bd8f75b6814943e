"""Checks of hosts: facts are gathered once, checks are pure functions from facts to findings."""
