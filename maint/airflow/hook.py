"""`MaintHook`: program, config and state of a site, from a connection of Airflow or as the DAG says."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

try:
    from airflow.sdk import BaseHook
except ImportError:  # Airflow 3.0
    from airflow.hooks.base import BaseHook
try:
    from airflow.sdk.exceptions import AirflowFailException as AirflowFailException
except ImportError:  # Airflow 3.0 and 3.1
    from airflow.exceptions import AirflowFailException as AirflowFailException


class MaintCall(NamedTuple):
    """How `maint` is called."""

    words: Sequence[str]  # the program, and the options that hold for every command
    variables: Mapping[str, str]  # beside those of the worker


class MaintHook(BaseHook):
    """Calls `maint` with the config of one connection.

    The connection's extra has `config` (the path of a config on the workers) or `config_content` (its text, where
    secrets stand as references), `state` (a folder; wanted beside `config_content`, which has no place of its own) and
    `program`. Its password becomes the file `password` beside the content: `password: file:password` refers to it.

    Args:
        maint_conn_id: the connection; None: none is asked for.
        config: the path of a config, instead of the connection's; without both `maint` looks at the usual places.
        program: the path of a `maint` outside Airflow's environment; None: the package beside this one.
    """

    conn_name_attr = "maint_conn_id"
    default_conn_name = "maint_default"
    conn_type = "maint"
    hook_name = "maint"

    def __init__(self, maint_conn_id: str | None = None, config: str | None = None, program: str | None = None) -> None:
        super().__init__()
        self.maint_conn_id = maint_conn_id
        self._config = config
        self._program = program

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:  # Any: as Airflow reads it
        """Return which fields the form of a connection shows."""
        example = '{"config": "/etc/maint/config.yaml"}'
        return {
            "hidden_fields": ["host", "schema", "login", "port"],
            "relabeling": {"password": "The manager's password (file:password)"},
            "placeholders": {"extra": example},
        }

    @contextmanager
    def call(self) -> Iterator[MaintCall]:
        """Yield how `maint` is called; what was written for it is deleted at the end.

        Raises:
            AirflowFailException: the connection does not say what is needed.
        """
        connection = self.get_connection(self.maint_conn_id) if self.maint_conn_id else None
        extra = connection.extra_dejson if connection else {}
        program = self._program or extra.get("program")
        words = [program] if program else [sys.executable, "-P", "-m", "maint"]  # -P: the worker's folder is not ours
        variables = {"MAINT_STATE": str(extra["state"])} if extra.get("state") else {}
        config, content = self._config or extra.get("config"), extra.get("config_content")
        if config or not content:
            yield MaintCall([*words, *(["--config", str(config)] if config else [])], variables)
            return
        if not variables:
            raise AirflowFailException(
                f"connection {self.maint_conn_id}: `config_content` wants `state` beside it, a folder that stays:"
                " locks, journals and keys of the site lie there"
            )
        folder = Path(tempfile.mkdtemp(prefix="maint-airflow-"))  # mode 0700
        try:
            _write(folder / "config.yaml", str(content))
            _write(folder / "password", (connection.password if connection else None) or "")
            yield MaintCall([*words, "--config", str(folder / "config.yaml")], variables)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
