"""Load a playbook, make a plan of it, carry the plan out, and pick it up after a crash."""
