"""The jobs API of a virtual cluster: request → response, one noun a file (contract on the jobs API)."""
