"""Refuse an empty word where one picks what is acted on: `--plan "$DIGEST"` of a variable that was never set.

Taken for "not said", it would restore without the plan that was read, or another snapshot than the one meant.
"""

from typing import Any

import typer

# Options that pick something. Others may well be empty, such as an argument of a job.
_PICKING = frozenset(
    {
        "--plan",
        "--snapshot",
        "--cluster",
        "--map-host",
        "--host",
        "--from",
        "--secrets",
        "--until",
        "--vc",
        "--site",
        "--config",
        "--confirm",
        "--timeout",
        "--store",
        "--signed-by",
        "--identity",
        "--manager",
        "--username",
        "--password",
        "--ca",
        "--license",
        "--ssh-key",
        "--known-hosts",
    }
)


def refusing_empty(made: Any) -> Any:  # Any: what typer builds of a command; it exports no name for it
    """Return a command that takes no empty word for what it acts on, exit 2."""
    for param in made.params:
        if param.callback is None and (param.param_type_name == "argument" or _PICKING.intersection(param.opts)):
            param.callback = _insist
    return made


def _insist(ctx: Any, param: Any, value: object) -> object:  # Any: see above
    said = ctx.get_parameter_source(param.name)
    empty = value == "" or (param.param_type_name == "option" and isinstance(value, list | tuple) and "" in value)
    if empty and said is not None and said.name == "COMMANDLINE":
        raise typer.BadParameter("it is empty; leave it out, or say which is meant", ctx=ctx, param=param)
    return value
