"""`maint playbook new`: begin a playbook of one's own."""

import json
import re
from typing import Annotated

from maint.cli.command import command
from maint.cli.help.output_schemas import playbook_schema
from maint.cli.options import Flags, argument, option
from maint.config.paths import absolute
from maint.errors import Invalid, UsageError
from maint.files import create, replace, writing
from maint.render import from_file

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
SCHEMA = "playbook.schema.json"


@command()
def new(
    flags: Flags,
    name: Annotated[str, argument("Its name: small letters, digits, dashes.")],
    folder: Annotated[str, option("--folder", "Where to write it; else here.")] = ".",
) -> int:
    """Write a commented playbook to begin from, and the schema that lets an editor complete it."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a playbook's name", hint="small letters, digits, dashes: patch-hosts")
    place = absolute(folder)
    path, screen = place / f"{name}.yaml", flags.screen()
    text = from_file("playbook.yaml.j2", {"name": name, "schema": SCHEMA})
    if flags.dry_run:
        screen.emit({"path": str(path), "content": text}, text.rstrip())
        return 0
    if not place.is_dir():
        raise Invalid(f"there is no folder {place}", hint="make it first")
    with writing(path, "name another folder: --folder"):
        if not create(path, text.encode(), mode=0o644):
            raise Invalid(f"{path} is there already", hint="give another name")
        replace(place / SCHEMA, (json.dumps(playbook_schema(), indent=1) + "\n").encode(), mode=0o644)
    screen.say(f"then `maint playbook lint {path}`, and `maint playbook plan {path} --set hosts=HOST`")
    screen.emit({"path": str(path), "schema_file": str(place / SCHEMA)}, str(path))
    return 0
