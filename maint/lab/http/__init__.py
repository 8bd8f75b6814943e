"""HTTP as every server of the lab speaks it."""
