"""The vendor's Ansible collection against the lab, every module of it."""
