"""The nouns of maint: frozen records."""
