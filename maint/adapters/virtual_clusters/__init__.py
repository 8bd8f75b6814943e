"""The jobs API of virtual clusters over requests."""
