"""`MaintOperator`: one command of maint as a task of Airflow."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from maint.airflow.child import Child, TaskOutcome, as_log_line, outcome_of, reason, report_in, words_of
from maint.airflow.hook import AirflowFailException, MaintHook


class MaintOperator(BaseSensorOperator):
    """Runs one command: plan and report in the task's log, its JSON as XCom.

    Exit codes 2, 3, 5 and 70 fail the task for good, 7 does so with what is left, all others (1, 4, 143) and a lost
    worker are tried again. A further try goes on with the run of the one before, by `--run-key`. Where another run
    holds the site (6) the task waits as a sensor does: it gives its slot back and takes no try. Killed, the task asks
    the command to end, which closes a redaction window first.

    Args:
        command: the words after `maint`, such as `["backup", "create", "--yes"]`.
        site: the site of the config; None where there is but one.
        maint_conn_id: the connection that has the config; see `MaintHook`.
        config: the path of a config on the workers.
        program: the path of a `maint` outside Airflow's environment.
        grace: seconds to wait for a command that was asked to end; closing a window takes up to 15 minutes.
        mode, poke_interval, timeout: how, how often and how long to wait for another run, as for every sensor.
    """

    template_fields: Sequence[str] = ("command", "site", "config", "maint_conn_id")

    def __init__(
        self,
        *,
        command: Sequence[str],
        site: str | None = None,
        maint_conn_id: str | None = None,
        config: str | None = None,
        program: str | None = None,
        grace: float = 1200.0,
        mode: str = "reschedule",
        poke_interval: timedelta | float = 600.0,
        timeout: timedelta | float = 3 * 3600.0,
        **kwargs: Any,  # Any: whatever a task of Airflow takes
    ) -> None:
        super().__init__(mode=mode, poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.command = command
        self.site = site
        self.maint_conn_id = maint_conn_id
        self.config = config
        self.program = program
        self.grace = grace
        self._child: Child | None = None

    def poke(self, context: Any) -> PokeReturnValue:  # Any: as Airflow hands it over
        """Run the command, and return what it printed; not done where another run holds the site.

        Raises:
            AirflowFailException: another try would end the same way.
            RuntimeError: another try may go on.
        """
        try:
            command = words_of(self.command)  # looked at only now: a template may have made a list of it
        except ValueError as error:
            raise AirflowFailException(str(error)) from error
        hook = MaintHook(self.maint_conn_id, self.config, self.program)
        with hook.call() as call:
            site = ["--site", self.site] if self.site else []
            words = [*call.words, *site, "--run-key", key_of(context["ti"]), "-v", "-o", "json", *command]
            self.log.info("maint %s", " ".join(words[len(call.words) :]))
            self._child = Child(words, call.variables, self._tell)
            try:
                code = self._child.wait()
            except BaseException:  # the task's time is up: the config is needed until a window is closed
                self._end()
                raise
        return self._ended(context, code, self._child)

    def on_kill(self) -> None:
        """Ask the command to end, and wait until it has closed what it had opened."""
        self._end()

    def _tell(self, line: str) -> None:
        words, warns = as_log_line(line)
        (self.log.warning if warns else self.log.info)("%s", words)

    def _end(self) -> None:
        if self._child is not None and not self._child.stop(self.grace):
            self.log.warning("it has not ended in %s s; it goes on, and the next try waits for its lock", self.grace)

    def _ended(self, context: Any, code: int, child: Child) -> PokeReturnValue:  # Any: as above
        result, outcome = child.result, outcome_of(code)
        if report := report_in(result):
            self.log.info("%s", report)
        if outcome is TaskOutcome.DONE:
            return PokeReturnValue(True, result)
        if outcome is TaskOutcome.HELD:
            self.log.warning("%s", reason(code, child.lines))
            return PokeReturnValue(False)
        if result is not None:
            context["ti"].xcom_push(key="result", value=result)
        kind = RuntimeError if outcome is TaskOutcome.AGAIN else AirflowFailException
        raise kind(reason(code, child.lines, result))


def key_of(task: Any) -> str:  # Any: a running task of Airflow
    """Return the key of a task's run, the same for each of its tries."""
    return f"{task.dag_id}/{task.run_id}/{task.task_id}/{task.map_index}"
