"""A virtual cluster as Protocols: its jobs, resources and runs, looked at (`…Sight`) and acted upon."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import BinaryIO, Protocol

import msgspec

from maint.config.schema import VirtualClusterSettings
from maint.model.json import Json
from maint.model.virtual_cluster import File, Job, Object, Resource, Run
from maint.ports.streams import Answer


class Content(msgspec.Struct, frozen=True):
    """The bytes of a file to upload."""

    open: Callable[[], BinaryIO]  # opens them from the start; called again where they must be sent again
    size: int  # bytes


class Start(msgspec.Struct, frozen=True):
    """A run to be started."""

    job: str
    request_id: str  # names this very start, so that a lost answer never makes a second run (J3.5)
    after: int | None = None  # the newest run of the job before the start; None: look it up
    variables: Mapping[str, Json] | None = None  # fill `{{{name}}}` in application name, arguments and configuration
    overrides: Mapping[str, Json] | None = None  # parts of the definition for this run alone
    user: str | None = None  # None for the caller
    again: bool = False  # this very start may have gone out before: look before it is sent
    asked: datetime | None = None  # when that was


class VirtualClusterSight(Protocol):
    """The jobs API of one virtual cluster, reading only (J2 to J7); a user without a role sees empty lists.

    Every method raises `CannotReach` when virtual cluster or gateway cannot be reached or trusted, `LoginRefused` when
    the user is not let in, and `WorkFailed` with the server's own message when it answers with an error.
    """

    @property
    def settings(self) -> VirtualClusterSettings:
        """What is configured."""

    def token_until(self) -> float | None:
        """Log in, and return for how many seconds the token is good; None where nobody says."""

    def token_user(self) -> str:
        """Log in, and return whose the token says it is; empty where it tells nobody's name."""

    def info(self) -> Object:
        """Return `GET /info`: at least `appName`, the virtual cluster's own name."""

    def answers(self, base_url: str) -> bool:
        """Tell whether a jobs API answers at an address, any virtual cluster's; nobody logs in there."""

    def certificates(self) -> Mapping[str, bytes]:
        """Return the certificates (DER) that virtual cluster and gateway show, by host, believed or not."""

    def jobs(self, filters: Sequence[str] = ()) -> Sequence[Job]:
        """Return the jobs that all filters (J3.4) let through, by name."""

    def job(self, name: str) -> Job | None:
        """Return a job, None where there is none."""

    def resources(self, filters: Sequence[str] = ()) -> Sequence[Resource]:
        """Return all resources, by name, without their files."""

    def resource(self, name: str, *, files: bool = True) -> Resource | None:
        """Return a resource, with its files unless asked otherwise; None where there is none."""

    def download(self, resource: str, file: File) -> AbstractContextManager[Answer]:
        """Stream a file's bytes; `WorkFailed` where there is none, or it is longer than its resource says."""

    def runs(self, filters: Sequence[str] = ()) -> Sequence[Run]:
        """Return all runs, oldest first."""

    def newest_run(self, job: str) -> Run | None:
        """Return the run of a job with the highest number, None where it has none."""

    def run(self, run_id: int) -> Run | None:
        """Return a run, None where there is none."""

    def log_types(self, run_id: int) -> Sequence[str]:
        """Return the kinds of log that a run has by now."""

    def log(self, run_id: int, kind: str) -> AbstractContextManager[Answer | None]:
        """Stream a log; None where it is not there, or not there yet (J6.4)."""


class VirtualCluster(VirtualClusterSight, Protocol):
    """The jobs API, acting; every method raises `Conflict` where a name is taken by something else.

    An answer that is lost, or that is not the server's own, is decided by looking: nothing is done twice.
    """

    def create_job(self, definition: Object) -> None:
        """Create a job."""

    def update_job(self, name: str, definition: Object) -> None:
        """Replace a job's definition."""

    def delete_job(self, name: str) -> bool:
        """Delete a job; return False where it was already gone."""

    def start_run(self, start: Start) -> int:
        """Start a run once, and return its number."""

    def pause(self, job: str) -> None:
        """Pause a job's schedule."""

    def unpause(self, job: str) -> None:
        """Let a job's schedule go on; one that starts in the past fires at once (J4.4)."""

    def create_resource(self, definition: Object) -> None:
        """Create a resource."""

    def delete_resource(self, name: str) -> bool:
        """Delete a resource with its files; return False where it was already gone."""

    def upload(self, resource: str, path: str, content: Content) -> str:
        """Upload a file over whatever is there, and return its signature."""

    def delete_file(self, resource: str, path: str) -> bool:
        """Delete a file; return False where it was already gone."""

    def kill(self, run_id: int) -> None:
        """Kill a run; one that has ended, or is gone, stays as it is."""
