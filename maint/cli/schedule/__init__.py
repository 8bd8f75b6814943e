"""`maint schedule` and `maint generate`: what makes backups run by themselves, and what watches them."""
