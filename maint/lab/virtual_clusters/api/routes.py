"""Which call is answered by whom (contract on the jobs API, sections 4.1, 5.1, 6.1, 7, 8, 9)."""

import re
from urllib.parse import unquote

from maint.lab.virtual_clusters.api import about, archives, files, job_runs, jobs, resources, schedules
from maint.lab.virtual_clusters.messages import Handler

PREFIX = "/dex/api/v1/"

ROUTES: dict[str, Handler] = {
    "GET info": about.info,
    "GET credentials": about.credentials,
    "GET repositories": about.repositories,
    "GET jobs": jobs.read_all,
    "POST jobs": jobs.create,
    "GET jobs/{job}": jobs.read,
    "PATCH jobs/{job}": jobs.update,
    "DELETE jobs/{job}": jobs.delete,
    "POST jobs/{job}/run": jobs.run,
    "POST jobs/{job}/schedule/{action}": schedules.act,
    "GET resources": resources.read_all,
    "POST resources": resources.create,
    "GET resources/{resource}": resources.read,
    "DELETE resources/{resource}": resources.delete,
    "PUT resources/{resource}/{path*}": files.upload,
    "GET resources/{resource}/{path*}": files.download,
    "DELETE resources/{resource}/{path*}": files.delete,
    "GET job-runs": job_runs.read_all,
    "GET job-runs/{run}": job_runs.read,
    "POST job-runs/{run}/kill": job_runs.kill,
    "GET job-runs/{run}/log-types": job_runs.log_types,
    "GET job-runs/{run}/logs": job_runs.read_log,
    "GET admin/export": archives.export,
    "POST admin/import": archives.take_in,
}


def find(method: str, path: str) -> tuple[Handler, dict[str, str]] | None:
    """Return who answers a call, and the values of its placeholders, decoded."""
    for pattern, handler in _COMPILED.items():
        found = pattern.fullmatch(f"{method} {path}")
        if found:
            return handler, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


def known(path: str) -> bool:
    """Return whether a path answers to any method."""
    return any(find(method, path) for method in ("GET", "POST", "PUT", "PATCH", "DELETE"))


def _pattern(spelled: str) -> re.Pattern[str]:
    escaped = re.escape(spelled)
    wide = re.sub(r"\\\{(\w+)\\\*\\\}", r"(?P<\1>.+)", escaped)
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", wide))


_COMPILED = {_pattern(spelled): handler for spelled, handler in ROUTES.items()}
