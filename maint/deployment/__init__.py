"""What an export of the manager says: its records, whether it is whole or redacted, and how two of them differ."""
