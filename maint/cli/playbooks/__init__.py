"""`maint playbook`: playbooks, and their runs."""
