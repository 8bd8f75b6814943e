"""Further verbs of `maint playbook`: a person's word, writing, checking, trying and comparing playbooks."""
