"""From a lost manager and lost virtual clusters back to both."""
