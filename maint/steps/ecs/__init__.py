"""Steps that take an ECS cluster off its hosts."""
