"""The step kinds that playbooks are made of, one noun a file."""
