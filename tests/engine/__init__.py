"""The engine: playbooks read strictly, plans, journals, locks, runs."""
