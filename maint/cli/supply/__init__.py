"""`maint generate constraints|bundle|container`: how what was tested gets to another machine."""
