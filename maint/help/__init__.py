"""Help topics, shipped with the product."""
