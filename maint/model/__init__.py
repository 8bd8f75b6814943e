"""The nouns of maint: frozen dataclasses that need nothing but the standard library."""
