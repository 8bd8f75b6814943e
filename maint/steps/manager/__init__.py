"""Steps that act on the manager: clusters, licence, server, TLS, truststore, redaction window."""
