"""Read a DAG file without running it: id, schedule, and the jobs that its tasks run (J4.4)."""

import ast
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

_JOB_RUN = re.compile(r"cde.*operator$", re.IGNORECASE)  # two generations of one class name
_NOTHING = re.compile(r"(Empty|Dummy)Operator$")
_OPERATOR = re.compile(r"(Operator|Sensor)$")


class BadDag(ValueError):
    """The file does not hold a DAG that can be understood."""


class Task(msgspec.Struct):
    """A task of a DAG."""

    id: str
    job: str = ""  # "" for a task that does nothing
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    overrides: dict[str, Any] = msgspec.field(default_factory=dict)  # Any: what JSON can spell
    unsupported: str = ""  # the operator's name where it does not run jobs
    after: list[str] = msgspec.field(default_factory=list)  # ids of the tasks that must have succeeded before


class Dag(msgspec.Struct):
    """A DAG as its file tells it."""

    id: str
    schedule: str = ""
    start: datetime | None = None
    end: datetime | None = None
    catchup: bool = True
    paused: bool = False
    tasks: list[Task] = msgspec.field(default_factory=list)

    def order(self) -> list[Task]:
        """Return the tasks, each after those that it waits for; BadDag where they wait for each other."""
        waiting, done = list(self.tasks), list[Task]()
        while waiting:
            ready = [task for task in waiting if all(name in {each.id for each in done} for name in task.after)]
            if not ready:
                raise BadDag("Cycle detected in DAG")
            done.append(ready[0])
            waiting.remove(ready[0])
        return done


def parse(text: str) -> Dag:
    """Return the DAG in a file's text; BadDag: there is none, or it cannot be understood without running it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise BadDag(f"Broken DAG: {error}") from error
    reader = _Reader()
    reader.visit(tree)
    if reader.dag is None:
        raise BadDag("Broken DAG: there is no DAG in the file")
    return reader.dag


class _Reader(ast.NodeVisitor):
    """Walks through a file in the order of its lines."""

    def __init__(self) -> None:
        self.dag: Dag | None = None
        self._names: dict[str, Any] = {}  # Any: constants of the module
        self._tasks: dict[str, list[Task]] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        tasks = self._tasks_of(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if tasks:
                    self._tasks[target.id] = tasks
                else:
                    self._names[target.id] = self._value(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Read tasks without a name, and what is chained to what."""
        self._tasks_of(node.value)

    def visit_With(self, node: ast.With) -> None:
        """Read `with DAG(…) as dag:`."""
        for item in node.items:
            self._tasks_of(item.context_expr)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Read `@dag(…) def name():`."""
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _called(decorator) == "dag" and self.dag is None:
                self._take_dag(decorator, node.name)
        self.generic_visit(node)

    def _tasks_of(self, node: ast.expr) -> list[Task]:
        """Return the tasks that an expression stands for; new ones are taken in."""
        if isinstance(node, ast.Name):
            return self._tasks.get(node.id, [])
        if isinstance(node, ast.List | ast.Tuple):
            return [task for member in node.elts for task in self._tasks_of(member)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift | ast.LShift):
            left, right = self._tasks_of(node.left), self._tasks_of(node.right)
            _chain(*((left, right) if isinstance(node.op, ast.RShift) else (right, left)))
            return right
        return self._of_call(node) if isinstance(node, ast.Call) else []

    def _of_call(self, node: ast.Call) -> list[Task]:
        name = _called(node)
        if name == "DAG" and self.dag is None:
            self._take_dag(node, "")
        elif name == "chain":
            steps = [self._tasks_of(argument) for argument in node.args]
            for before, after in pairwise(steps):
                _chain(before, after)
        elif name in ("set_downstream", "set_upstream") and isinstance(node.func, ast.Attribute):
            own, others = self._tasks_of(node.func.value), [t for a in node.args for t in self._tasks_of(a)]
            _chain(*((own, others) if name == "set_downstream" else (others, own)))
        elif _OPERATOR.search(name):
            return [self._take_task(node, name)]
        return []

    def _take_dag(self, node: ast.Call, name: str) -> None:
        given = self._keywords(node)
        defaults = given.get("default_args") if isinstance(given.get("default_args"), dict) else {}
        dag_id = given.get("dag_id") or (self._value(node.args[0]) if node.args else "") or name
        if not isinstance(dag_id, str) or not dag_id:
            raise BadDag("Broken DAG: its dag_id cannot be told")
        schedule = given.get("schedule", given.get("schedule_interval", timedelta(days=1)))
        start, end = (_moment(given.get(key, (defaults or {}).get(key))) for key in ("start_date", "end_date"))
        paused, catchup = given.get("is_paused_upon_creation") is True, given.get("catchup") is not False
        self.dag = Dag(dag_id, _expression(schedule), start, end, catchup, paused)

    def _take_task(self, node: ast.Call, operator: str) -> Task:
        given = self._keywords(node)
        task = Task(str(given.get("task_id") or f"task_{node.lineno}"))
        if _JOB_RUN.search(operator):
            task.job = str(given.get("job_name") or "")
            variables, overrides = given.get("variables"), given.get("overrides")
            task.variables = {str(k): str(v) for k, v in variables.items()} if isinstance(variables, dict) else {}
            task.overrides = overrides if isinstance(overrides, dict) else {}
        elif not _NOTHING.search(operator):
            task.unsupported = operator
        if self.dag is None:
            self.dag = Dag("")
        self.dag.tasks.append(task)
        return task

    def _keywords(self, node: ast.Call) -> dict[str, Any]:
        return {keyword.arg: self._value(keyword.value) for keyword in node.keywords if keyword.arg}

    def _value(self, node: ast.expr) -> Any:
        """Return what an expression of constants is worth, None where that is unknown."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Dict):
            return {self._value(k): self._value(v) for k, v in zip(node.keys, node.values, strict=True) if k}
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(member) for member in node.elts]
        if isinstance(node, ast.JoinedStr):
            return "".join(str(self._value(getattr(part, "value", part))) for part in node.values)
        if isinstance(node, ast.Call):
            return self._made(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            return _sum(self._value(node.left), self._value(node.right), isinstance(node.op, ast.Add))
        return None

    def _made(self, node: ast.Call) -> Any:
        name, given = _called(node), self._keywords(node)
        values = [self._value(argument) for argument in node.args]
        try:
            if name == "datetime":
                given = {name: value for name, value in given.items() if name not in ("tz", "tzinfo")}
                return datetime(*values, **given).replace(tzinfo=UTC)
            if name == "timedelta":
                return timedelta(*values, **given)
            if name in ("parse", "fromisoformat"):
                return _moment(values[0])
        except (TypeError, ValueError) as error:
            raise BadDag(f"Broken DAG: {error}") from error
        return datetime.now(UTC) if name in ("now", "utcnow", "today") else None


def _chain(before: list[Task], after: list[Task]) -> None:
    for task in after:
        task.after += [other.id for other in before if other.id not in task.after]


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _sum(left: Any, right: Any, plus: bool) -> Any:  # Any: two constants
    try:
        return left + right if plus else left - right
    except TypeError:
        return None


def _moment(value: Any) -> datetime | None:  # Any: a constant
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return None


def _expression(schedule: Any) -> str:  # Any: a constant
    if isinstance(schedule, timedelta):
        minutes = max(1, int(schedule.total_seconds() // 60))
        named = {60: "@hourly", 1440: "@daily", 10080: "@weekly"}
        return named.get(minutes) or (f"*/{minutes} * * * *" if minutes < 60 else f"0 */{min(23, minutes // 60)} * * *")
    return schedule if isinstance(schedule, str) and schedule != "None" else ""
