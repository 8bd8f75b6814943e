"""The simulated hosts: SSH, a shell, files, units, and what may be wrong with them."""
