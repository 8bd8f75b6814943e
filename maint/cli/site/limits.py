"""How old things may be before somebody is told: the defaults of whatever watches backups."""

BACKUP_AGE = "26h"  # of the last verified backup
DRILL_AGE = "35d"  # of the last good drill
