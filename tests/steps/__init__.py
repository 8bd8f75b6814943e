"""Step kinds and shipped playbooks against the lab."""
