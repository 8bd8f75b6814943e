"""Configuration: strict YAML, its schema, the layers it comes from, secrets and paths."""
