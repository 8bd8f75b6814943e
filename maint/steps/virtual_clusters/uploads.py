"""Files on their way into a virtual cluster: where each goes, what it is read from, whether it arrived whole."""

import hashlib
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from shlex import quote

from maint.config.paths import absolute
from maint.errors import CannotReach, Refused, WorkFailed
from maint.files import as_file, opened, reading
from maint.model.snapshot import StoredFile
from maint.model.virtual_cluster import File, is_file_path
from maint.ports import Sight, VirtualClusterSight, Work
from maint.ports.virtual_cluster import Content
from maint.snapshots.parts import metered, open_object

_NOTE = "damaged"  # the note under which a run keeps what of it arrived as something else: signatures by place


def unread_dags(cluster: VirtualClusterSight, resource: str, paths: Collection[str]) -> str:
    """Return in words which DAGs go by their old files until their jobs are updated (J4.4), else nothing.

    The files are there by now: where the jobs cannot be read, that is said.
    """
    ends = tuple(f"/{path}" for path in paths if path.endswith(".py"))
    try:
        jobs = cluster.jobs() if ends else ()
    except (CannotReach, WorkFailed) as failure:
        return f"; whether a DAG goes by its old file cannot be told: {failure.message}"
    dags = [job for job in jobs if job.type == "airflow" and resource in job.mounts]
    names = [job.name for job in dags if f"/{job.file}".endswith(ends)]
    return "".join(
        f"; DAG {name} goes by its old file until `maint vc job update --name {quote(name)}`" for name in names
    )


def local(path: Path) -> Content:
    """Return a local file as something to upload; Invalid: it cannot be read."""
    with reading(path):
        return Content(lambda: opened(path), path.stat().st_size)


def stored_content(sight: Sight, stored: StoredFile, size: int) -> Content:
    """Return a file of a snapshot as something to upload."""

    def opened() -> io.BufferedReader:
        stack = ExitStack()
        stream = stack.enter_context(open_object(sight, stored))
        return as_file(stream.read, close=stack.close)

    return Content(opened, size)


def watched(sight: Sight, content: Content, of: int) -> Content:
    """Return something to upload of which who watches learns how far it is, of so many bytes in all."""

    def opened() -> io.BufferedReader:
        file = content.open()
        return as_file(metered(sight, "uploading", file.read, of), close=file.close)

    return Content(opened, content.size)


def placed(files: Iterable[str], folder: str) -> dict[str, str]:
    """Return where local files go within a resource: path there → path here.

    Args:
        files: local paths.
        folder: the folder; for a single file that does not end with `/`, its whole path.

    Raises:
        Refused: a file is not there, two would get the same path, or one would get none.
        Invalid: a file cannot be read.
    """
    found: dict[str, str] = {}
    given = list(files)
    for text in given:
        with reading(text):
            if not Path(text).is_file():
                if Path(text).exists():
                    raise Refused(
                        f"{text} is not a file", hint="name files; a pattern such as `FOLDER/*` names several"
                    )
                raise Refused(f"there is no file {text}", hint="name files that are there")
            with Path(text).open("rb") as file:
                file.read(1)
        alone = len(given) == 1 and folder and not folder.endswith("/")
        there = folder if alone else str(PurePosixPath(folder.strip("/")) / Path(text).name)
        if not is_file_path(there):
            raise Refused(f"{there!r} is not the path of a file in a resource", hint="such as lib/tools.py")
        if there in found:
            raise Refused(f"{text} and {found[there]} would both become {there}", hint="upload them one by one")
        found[there] = str(absolute(text))
    return found


def signature_of(path: Path) -> str:
    """Return the signature that a local file would have in a resource; Invalid: it cannot be read."""
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()


def refuse_other_bytes(cluster: VirtualClusterSight, work: Work, resource: str, sent: Mapping[str, str]) -> None:
    """Refuse to believe an upload until the resource shows it.

    Args:
        resource: which.
        sent: signatures of what was sent, by path.

    Raises:
        WorkFailed: a file is not there, or is another one, which is noted as `prove_arrival` does.
    """
    live = cluster.resource(resource) if sent else None
    here = {path: live.file(path) if live is not None else None for path in sent}
    wrong = [path for path, file in here.items() if file is None or file.signature != sent[path]]
    if wrong:
        _note_damage(work, {f"{resource}/{path}": file.signature for path in wrong if (file := here[path])})
        raise WorkFailed(
            f"resource {resource} does not hold what was uploaded",
            detail=[f"{path} has another signature, or is not there" for path in wrong],
            hint="upload again; is somebody else writing into it?",
        )


def prove_arrival(cluster: VirtualClusterSight, work: Work, sent: Mapping[str, Sequence[File]]) -> None:
    """Hold what was uploaded against what the server has.

    Args:
        sent: the files by the name of their resource.

    Raises:
        WorkFailed: something arrived as other bytes; it is noted, so that a resume replaces it.
    """
    wrong = {
        f"{name}/{file.path}": found.signature
        for name, files in sent.items()
        for live in [cluster.resource(name)]
        for file in files
        if live is not None and (found := live.file(file.path)) is not None and found.signature != file.signature
    }
    if wrong:
        _note_damage(work, wrong)
        raise WorkFailed(
            f"uploads were damaged on their way: {len(wrong)}",
            detail=[
                f"resource {place.partition('/')[0]}: {place.partition('/')[2]} is not what was sent" for place in wrong
            ],
            hint="`maint playbook resume` uploads them again; where it stays so, look at the proxy in between",
        )


def _note_damage(work: Work, wrong: Mapping[str, str]) -> None:
    before = work.noted(_NOTE)
    work.note(_NOTE, {**(before if isinstance(before, Mapping) else {}), **wrong})


def own_damage(work: Work, resource: str, file: File) -> bool:
    """Whether a file is what an upload of this very run became on its way."""
    noted = work.noted(_NOTE)
    return isinstance(noted, Mapping) and noted.get(f"{resource}/{file.path}") == file.signature
