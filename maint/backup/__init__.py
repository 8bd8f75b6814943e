"""Take, judge, verify, keep and compare snapshots."""
