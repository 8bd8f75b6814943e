"""maint on Apache Airflow: an operator, a sensor and a hook; only this room knows Airflow."""

from typing import Any


def get_provider_info() -> dict[str, Any]:  # Any: as Airflow reads it
    """Return what Airflow asks of a provider package."""
    return {
        "package-name": "maint",
        "name": "maint",
        "description": "Backups that can be believed, restores that are proven first.",
        "connection-types": [{"connection-type": "maint", "hook-class-name": "maint.airflow.hook.MaintHook"}],
        "integrations": [{"integration-name": "maint", "external-doc-url": "", "tags": ["software"]}],
        "operators": [{"integration-name": "maint", "python-modules": ["maint.airflow.operator"]}],
        "sensors": [{"integration-name": "maint", "python-modules": ["maint.airflow.sensor"]}],
        "hooks": [{"integration-name": "maint", "python-modules": ["maint.airflow.hook"]}],
    }
