"""Where the vendor's software keeps its files on the hosts (M7, M11, M12, M13.4)."""

SETTINGS = "/etc/cloudera-scm-server"  # the folder of the next two
GUID = f"{SETTINGS}/uuid"
PROPERTIES = f"{SETTINGS}/db.properties"
STATE = "/var/lib/cloudera-scm-server"
CERTMANAGER = f"{STATE}/certmanager"
PARCELS = "/opt/cloudera/parcels"
