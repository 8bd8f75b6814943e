"""What each module of the collection is asked to do: its steps, with a word that the module's answer must hold."""

from typing import Any

Steps = list[tuple[dict[str, Any], str]]  # Any: what a module takes

BASE, HDFS = {"cluster": "base"}, {"cluster": "base", "service": "hdfs"}
HOST, OTHER = "base-01.example.internal", "base-03.example.internal"
BALANCER, DATANODE = "hdfs-BALANCER-f7ce1b5c40b2dfede61deb76956bf598", "hdfs-DATANODE-24998d7fa92993a754e83b3a74c31296"
MONITOR = {"type": "HOSTMONITOR"}
CDH = {"name": "CDH", "parcel_version": "7.1.7-1.cdh7.1.7.p1000.24102687"}
GROUP = {**HDFS, "name": "hdfs-DATANODE-BASE"}
TEMPLATE = {**BASE, "name": "of-the-test", "role_config_groups": [{"service": "hdfs", "type": "DATANODE"}]}
DONE, SAME = "| CHANGED", "| SUCCESS"  # what ansible says of what a module did, or found done

CASES: dict[str, Steps] = {
    # what is only read
    "cm_version_info": [({}, "7.6.5")],
    "cm_endpoint_info": [({"url": None}, "/api/v49")],
    "cm_config_info": [({}, "WEB_TLS"), ({"view": "full"}, "validation_state")],
    "cm_service_info": [({}, "HOSTMONITOR")],
    "cm_service_role_info": [({}, "EVENTSERVER"), (MONITOR, "mgmt-HOSTMONITOR")],
    "cm_service_role_config_group_info": [({}, "role_names"), (MONITOR, "mgmt-HOSTMONITOR-BASE")],
    "cm_license_info": [({}, "owner")],
    "cm_kerberos_info": [({}, "SECURITY_REALM")],
    "cm_autotls_info": [({}, "AUTO_TLS_TYPE")],
    "cm_resource_info": [({"path": "/users"}, "authRoles")],
    "cluster_info": [({}, "BASE_CLUSTER"), ({"name": "ecs-01"}, "EXPERIENCE_CLUSTER"), ({"name": "none"}, "[]")],
    "host_info": [({}, HOST), ({"cluster_hostname": HOST}, "num_cores")],
    "host_config_info": [({"name": HOST}, "memory_overcommit_threshold")],
    "host_template_info": [({**BASE, "name": "base-worker"}, "hdfs-DATANODE-BASE")],
    "service_info": [(BASE, "hive_on_tez"), ({**BASE, "name": "hdfs"}, BALANCER)],
    "service_type_info": [(BASE, "ZOOKEEPER")],
    "service_config_info": [(HDFS, "zookeeper_service"), ({**HDFS, "view": "full"}, "dfs_replication")],
    "service_role_info": [
        (HDFS, "NAMENODE"),
        ({**HDFS, "role": BALANCER}, "BALANCER"),
        ({**HDFS, "type": "BALANCER", "cluster_hostname": HOST}, BALANCER),
        ({**HDFS, "type": "BALANCER", "cluster_hostname": OTHER}, "[]"),
    ],
    "role_info": [({**HDFS, "role": BALANCER}, "BALANCER"), ({**HDFS, "type": "NAMENODE"}, "NAMENODE")],
    "service_role_config_info": [({**HDFS, "role": BALANCER, "view": "full"}, "config")],
    "service_role_config_group_info": [(HDFS, "role_names"), (GROUP, "DATANODE")],
    "service_role_config_group_config_info": [({**GROUP, "view": "full"}, "dfs_datanode_handler_count")],
    "user_info": [({}, "jdoe"), ({"account_name": "jdoe"}, "Read-Only")],
    "parcel_info": [({"cluster_name": "base"}, "ACTIVATED")],
    "data_context_info": [({}, "[]"), ({"name": "none"}, "[]")],
    "external_account_info": [({}, "[]")],
    "external_user_mappings_info": [({}, "LDAP"), ({"name": "cm-admins"}, "LDAP")],
    "role_config_group_info": [(HDFS, "role_names"), ({**HDFS, "type": "DATANODE"}, "hdfs-DATANODE-BASE")],
    "control_plane_info": [({}, "\"namespace\": \"cdp\"")],
    "external_auth_info": [({"type": "kerberos"}, "SECURITY_REALM")],
    # settings
    "cm_config": [
        ({"parameters": {"PARCEL_UPDATE_FREQ": 30}}, '"30"'),
        ({"parameters": {"PARCEL_UPDATE_FREQ": 30}}, SAME),
    ],
    "cm_service_role_config": [({**MONITOR, "parameters": {}}, "role_jceks_password")],
    "cm_service_role_config_group": [({**MONITOR, "config": {"firehose_heapsize": 2147483648}}, "2147483648")],
    "cm_service_role_config_group_config": [({**MONITOR, "parameters": {"firehose_heapsize": 7}}, "firehose_heapsize")],
    "external_auth": [({"type": "kerberos", "params": {"kdc_host": "kdc-2.example.internal"}}, '"external_auth": []')],
    "service_config": [({**HDFS, "parameters": {"dfs_replication": 2}}, "dfs_replication")],
    "service_role_config": [({**HDFS, "role": DATANODE, "parameters": {"datanode_java_heapsize": 7}}, "_heapsize")],
    "service_role_config_group_config": [({**GROUP, "parameters": {"dfs_datanode_handler_count": 5}}, '"5"')],
    "host_config": [({"name": HOST, "parameters": {"memory_overcommit_threshold": "0.9"}}, "0.9")],
    "cm_kerberos": [
        ({"kdc_type": "MIT KDC", "krb_enc_types": ["aes256-cts"], "kdc_host": "kdc-2.example.internal"}, "kdc-2"),
        ({"state": "absent"}, "HADOOP.COM"),
    ],
    "cm_autotls": [({"force": True, "location": "/opt/ca"}, "AUTO_TLS_TYPE"), ({"state": "absent"}, "NONE")],
    # what is made, changed and taken away
    "cluster": [
        ({"name": "base", "state": "stopped"}, "STOPPED"),
        ({"name": "base", "state": "started"}, "GOOD_HEALTH"),
        ({"name": "second", "cluster_version": "7.1.7", "type": "BASE_CLUSTER"}, "second"),
    ],
    "cm_license": [({"license": "{license}"}, "owner")],
    "cm_trial_license": [({}, "owner")],
    "cm_resource": [
        ({"path": "/users", "method": "POST", "body": {"items": [{"name": "new", "password": "new-Pw-1"}]}}, "new"),
        ({"path": "/users/new", "method": "DELETE"}, "new"),
    ],
    "user": [
        ({"account_name": "new", "account_password": "new-Pw-1", "roles": ["Read-Only"]}, "Read-Only"),
        ({"account_name": "new", "account_password": "new-Pw-2", "roles": ["Full Administrator"]}, "auth_roles"),
        ({"account_name": "new", "state": "absent"}, "new"),
    ],
    "external_user_mappings": [
        ({"name": "ops", "type": "LDAP", "auth_roles": ["ROLE_USER"]}, "ops"),
        ({"name": "ops", "type": "LDAP", "auth_roles": ["ROLE_ADMIN"]}, "Full"),
        ({"name": "ops", "type": "LDAP", "state": "absent"}, "ops"),
    ],
    "data_context": [
        ({"name": "sdx", **BASE, "services": ["hdfs", "ranger"]}, "sdx"),
        ({"name": "sdx", **BASE, "state": "absent"}, '"data_context": []'),
    ],
    "host_template": [
        (TEMPLATE, "hdfs-DATANODE-BASE"),
        ({**TEMPLATE, "role_config_groups": [{"service": "hdfs", "type": "BALANCER"}], "purge": True}, "hdfs-BALANCER"),
        ({**TEMPLATE, "state": "absent"}, DONE),
    ],
    "parcel": [
        ({**BASE, **CDH, "state": "distributed", "delay": 1}, "DISTRIBUTED"),
        ({**BASE, **CDH, "delay": 1}, "ACTIVATED"),
    ],
    "service": [
        ({**HDFS, "state": "stopped"}, "STOPPED"),
        ({**HDFS, "state": "started", "config": {"dfs_replication": 2}, "tags": {"owner": "ops"}}, "ops"),
        ({**HDFS, "tags": {}, "display_name": "Files", "maintenance": True}, "Files"),
        ({**BASE, "name": "zoo-2", "type": "ZOOKEEPER", "display_name": "Second"}, "zoo-2-SERVER-BASE"),
        (
            {**BASE, "name": "zoo-2", "roles": [{"type": "SERVER", "hostnames": [HOST]}],
             "role_config_groups": [{"name": "zoo-2-small", "role_type": "SERVER", "display_name": "Small"}]},
            "zoo-2-small",
        ),
        ({**BASE, "name": "zoo-2", "state": "absent"}, DONE),
    ],
    "service_role": [
        ({**HDFS, "role": BALANCER, "maintenance": True, "tags": {"owner": "ops"}}, "ops"),
        ({**HDFS, "type": "BALANCER", "cluster_hostname": OTHER, "role": "hdfs-of-the-test"}, "hdfs-of-the-test"),
        ({**HDFS, "role": "hdfs-of-the-test", "state": "started"}, "STARTED"),
        ({**HDFS, "role": "hdfs-of-the-test", "state": "stopped"}, "STOPPED"),
        ({**HDFS, "role": "hdfs-of-the-test", "state": "absent"}, DONE),
    ],
    "role": [
        ({**HDFS, "type": "BALANCER", "cluster_hostname": OTHER, "tags": {"owner": "ops"}}, "ops"),
        ({**HDFS, "type": "BALANCER", "cluster_hostname": OTHER, "state": "started", "maintenance": True}, "STARTED"),
        ({**HDFS, "name": BALANCER, "state": "stopped"}, "STOPPED"),
        ({**HDFS, "name": BALANCER, "state": "absent"}, DONE),
    ],
    "role_config_group": [
        ({**HDFS, "name": "hdfs-big", "role_type": "DATANODE", "display_name": "Big"}, "Big"),
        ({**HDFS, "name": "hdfs-big", "state": "absent"}, DONE),
    ],
    "service_role_config_group": [
        ({**HDFS, "name": "hdfs-big", "role_type": "DATANODE", "config": {"dfs_datanode_handler_count": 9}}, '"9"'),
        ({**HDFS, "name": "hdfs-big", "display_name": "Big"}, "Big"),
        ({**HDFS, "name": "hdfs-big", "state": "absent"}, DONE),
    ],
    "cm_service": [
        ({"state": "stopped"}, "STOPPED"),
        ({"state": "absent"}, DONE),
        (
            {"roles": [{**MONITOR, "cluster_hostname": HOST}, {"type": "EVENTSERVER", "cluster_hostname": HOST}],
             "role_config_groups": [{**MONITOR, "config": {"firehose_heapsize": 2147483648}}]},
            "EVENTSERVER",
        ),
        ({"state": "started", "maintenance": True}, "STARTED"),
    ],
    "cm_service_role": [
        ({**MONITOR, "state": "stopped"}, "STOPPED"),
        ({**MONITOR, "state": "started", "maintenance": True}, "STARTED"),
        ({**MONITOR, "state": "stopped"}, "STOPPED"),
        ({**MONITOR, "state": "absent"}, DONE),
    ],
}  # fmt: skip

_BEYOND, _OWN, _OLD = "calls that the lab does not simulate", "its own defect", "an older name of another module"
# Those that are not run, and why.
NOT_RUN = {
    "cm_service_config": f"{_OWN}: it loses what it is told to set, whatever the server says",
    "control_plane": f"{_BEYOND}: controlPlanes/commands/…",
    "host": "not tried; making a host is not simulated",
    "external_account": f"{_BEYOND}: externalAccounts/create, update and delete",
    "assemble_cluster_template": "asks no server",
    "deprecation": "asks no server",
    "warn": "asks no server",
    "cm_import_cluster_template": f"{_BEYOND}: cm/importClusterTemplate",
    **dict.fromkeys(
        (
            "cluster_service", "cluster_service_config", "cluster_service_config_info", "cluster_service_info",
            "cluster_service_role_info", "cluster_service_type_info", "cluster_service_types_info", "cm_cluster",
            "cm_cluster_info", "cm_trial",
        ),
        _OLD,
    ),
}  # fmt: skip
