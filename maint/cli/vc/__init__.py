"""`maint vc`: virtual clusters, with the commands of the documented client."""
