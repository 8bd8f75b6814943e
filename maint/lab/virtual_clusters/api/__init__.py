"""The jobs API of a virtual cluster: request → response, one noun a file."""
