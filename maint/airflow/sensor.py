"""`BackupFreshSensor`: waits until the newest verified restorable backup of a site is young enough."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from maint.airflow.child import Child, TaskOutcome, last_verified, outcome_of, reason
from maint.airflow.hook import AirflowFailException, MaintHook

_GRACE = 3.0  # seconds for a command that reads to end in; Airflow kills the task after five


class BackupFreshSensor(BaseSensorOperator):
    """Waits for a verified restorable backup that is young enough; its id, time and age are the XCom.

    Args:
        max_age: how old it may be.
        site, maint_conn_id, config, program: as for `MaintOperator`.
    """

    template_fields: Sequence[str] = ("site", "config", "maint_conn_id")

    def __init__(
        self,
        *,
        max_age: timedelta = timedelta(hours=26),
        site: str | None = None,
        maint_conn_id: str | None = None,
        config: str | None = None,
        program: str | None = None,
        **kwargs: Any,  # Any: whatever a sensor of Airflow takes
    ) -> None:
        super().__init__(**kwargs)
        self.max_age = max_age
        self.site = site
        self.maint_conn_id = maint_conn_id
        self.config = config
        self.program = program
        self._child: Child | None = None

    def poke(self, context: Any) -> PokeReturnValue:  # noqa: ARG002  # as Airflow calls it
        """Look once; a store that cannot be reached may be there the next time.

        Raises:
            AirflowFailException: what is asked makes no sense, or what is called is no maint.
        """
        with MaintHook(self.maint_conn_id, self.config, self.program).call() as call:
            site = ["--site", self.site] if self.site else []
            child = Child([*call.words, *site, "-o", "json", "backup", "list"], call.variables, self.log.info)
            self._child = child
            try:
                code = child.wait()
            finally:
                self.on_kill()
        if outcome_of(code) is TaskOutcome.NEVER:
            raise AirflowFailException(reason(code, child.lines))
        try:
            newest = last_verified(code, child.result)
        except ValueError as error:
            raise AirflowFailException(str(error)) from error
        if newest is None:
            self.log.info("no verified restorable backup yet, or none that can be seen (exit %s)", code)
            return PokeReturnValue(False)
        self.log.info("%s is %.0f s old", newest["id"], newest["age"])
        return PokeReturnValue(newest["age"] <= self.max_age.total_seconds(), newest)

    def on_kill(self) -> None:
        """Ask the command to end: it has a session of its own, and would go on."""
        if self._child is not None:
            self._child.stop(_GRACE)
