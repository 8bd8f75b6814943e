"""The jobs API of virtual clusters; `client.VirtualClusterClient` is the way in."""
