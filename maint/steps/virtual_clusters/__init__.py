"""Steps that act on virtual clusters and on the hosts that serve them."""
