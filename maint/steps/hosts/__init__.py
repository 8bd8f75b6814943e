"""Steps that work on hosts over SSH: run, put and fetch files, units."""
