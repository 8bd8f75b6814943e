"""`python -m maint`: the same as `maint`."""

from maint.cli.start import main

main()
