"""Further verbs of `maint playbook`: approve, diff, history, lint, new, schedule, test."""
