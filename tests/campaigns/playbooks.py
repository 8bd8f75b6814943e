"""Playbooks drawn at random, and a model that says how a run of one goes, by what `maint help playbooks` promises.

Each `host.run` adds a line of its own to a log on each of its hosts, unless a file there makes it fail; so logs tell
what was done, how often, in which order. The model reads no plan: it works out itself what is done in which turn.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLACE = "/tried"  # on each host: `log`, `switch`, which is on or off, and `bad-STEP`, where that step is to fail
SECTIONS = ("steps", "on_failure", "finally")
SERVICE = "hive"  # which is started and stopped
SETTING = {"service": "hdfs", "cluster": "base", "name": "dfs_replication"}
PARAMETERS = {"k": "string", "members": "list", "flag": "boolean"}

Book = dict[str, list["Step"]]  # by section


@dataclass(frozen=True, eq=False)
class Step:
    """One step as it is written; one with a `book` includes that."""

    tag: str
    do: str = "host.run"
    hosts: Sequence[str] = ()  # of a `host.run`; none: those of the parameter
    way: str = ""  # `unless` or `repeatable`: how a `host.run` may be done again
    about: str = ""  # the value of the setting, or the registered value
    when: str = ""  # `flag` or `not flag`
    asks: tuple[bool, str] | None = None  # whether a registered value must be on, and which
    each: Sequence[str] = ()
    of_hosts: bool = False  # whether the members of `each` are the hosts of the included playbook
    keys: Mapping[str, Any] = field(default_factory=dict)  # `apart`, `serial`, `max_fail` as they are written
    book: Book | None = None


class Draw:
    """Draws a playbook, and on which hosts which steps are to fail."""

    def __init__(self, chance: random.Random, hosts: Sequence[str]) -> None:
        self.chance, self.hosts = chance, hosts
        self.bad = set[tuple[str, str]]()  # step and host
        self._steps = 0
        self._registered: list[str] = []
        self.book = self._book(0, final=False)

    def _book(self, depth: int, *, final: bool) -> Book:
        most = {"steps": (1, 3 if depth else 4), "on_failure": (0, 2), "finally": (0, 2)}
        return {
            name: [self._step(depth, final or name != "steps") for _ in range(self.chance.randint(*most[name]))]
            for name in SECTIONS
        }

    def _step(self, depth: int, final: bool) -> Step:
        self._steps += 1
        tag, chance, outermost = f"t{self._steps}", self.chance, not depth and not final
        first = self._steps == 1  # there is always something that is done
        what = 0 if first else chance.random()
        if what < 0.4:
            return self._run(tag, depth, first)
        if what < 0.44 and not final:
            return Step(tag, "approve")
        if what < 0.5 and outermost:
            self._registered.append(f"r{len(self._registered) + 1}")
            return Step(tag, "look", [chance.choice(self.hosts[2:])], about=self._registered[-1])
        if what < 0.55 and outermost and self._registered:
            return Step(tag, "assert", about=chance.choice(self._registered))
        if what < 0.66:
            return Step(tag, chance.choice(("service.start", "service.stop")))
        if what < 0.76:
            return Step(tag, "config.set", about=str(chance.randint(1, 4)))
        return self._include(tag, depth, final) if depth < 2 else self._run(tag, depth, first)

    def _run(self, tag: str, depth: int, first: bool) -> Step:
        chance, keys, each, asks = self.chance, dict[str, Any](), list[str](), None
        if chance.random() < 0.2:
            each = chance.sample(("x", "y", "z"), chance.randint(1, 3))
            keys = chance.choice(({}, {"apart": True}, {"serial": 2}))
        elif chance.random() < 0.25:
            keys = {"serial": chance.choice((1, 2, "50%", "1%"))}
        if chance.random() < 0.25:
            keys = {**keys, "max_fail": chance.choice((0, 1, 2, "50%"))}
        if self._registered and not depth and chance.random() < 0.3:
            asks = (chance.random() < 0.5, chance.choice(self._registered))
        if chance.random() < 0.3:
            self.bad |= {(tag, host) for host in self._some(self.hosts[:2])}  # what looks does so on others
        return Step(
            tag,
            hosts=self._some(self.hosts) if not depth or chance.random() < 0.2 else (),
            way=chance.choice(("", "unless", "repeatable")),
            when=chance.choice(("flag", "not flag")) if not first and not asks and chance.random() < 0.2 else "",
            asks=asks,
            each=each,
            keys=keys,
        )

    def _include(self, tag: str, depth: int, final: bool) -> Step:
        of_hosts, chance = self.chance.random() < 0.75, self.chance
        each = self._some(self.hosts if of_hosts else ("p", "q", "w")) if chance.random() < 0.7 else []
        keys = chance.choice(({}, {"apart": True}, {"apart": True}, {"apart": True}, {"serial": 2})) if each else {}
        when = chance.choice(("", "", "", "flag", "not flag"))
        book = self._book(depth + 1, final=final)
        return Step(tag, when=when, each=each, of_hosts=of_hosts, keys=keys, book=book)

    def _some(self, of: Sequence[str]) -> list[str]:
        return sorted(self.chance.sample(of, self.chance.randint(1, len(of))))  # hosts are taken in the config's order


class Files:
    """Writes a playbook, and what it includes, into a folder."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        self._folder = folder
        self._defaults = {"k": "", "members": [*hosts], "flag": True}

    def write(self, book: Book, name: str) -> Path:
        """Return where it lies."""
        known = {key: {"type": kind, "default": self._defaults[key]} for key, kind in PARAMETERS.items()}
        sections = {section: [self._step(step) for step in steps] for section, steps in book.items() if steps}
        path = self._folder / f"{name}.yaml"
        path.write_text(json.dumps({"name": name, "summary": "Drawn.", "parameters": known, **sections}))
        return path

    def _step(self, step: Step) -> dict[str, Any]:
        with_: dict[str, Any] = {"service": SERVICE, "cluster": "base"}
        more: dict[str, Any] = {**({"each": step.each} if step.each else {}), **step.keys}
        more |= {"when": step.when} if step.when else {}
        if step.book is not None:
            self.write(step.book, step.tag)
            members = "{{ members }}"
            if step.each and step.of_hosts:
                members = "{{ item }}" if "serial" in step.keys else "{{ [item] }}"
            k = "{{ k }}.{{ item }}" if step.each else "{{ k }}"
            with_ = {"k": k, "members": members, "flag": "{{ not flag }}"}
            return {"name": step.tag, "playbook": f"./{step.tag}.yaml", "with": with_, **more}
        if step.do == "look":
            with_ = {"hosts": step.hosts, "command": f"cat {PLACE}/switch", "reads": True, "output": True}
            return {"name": step.tag, "do": "host.run", "with": with_, "register": step.about}
        if step.do == "host.run":
            line = step.tag + "{{ k }}" + ("-{{ item }}" if step.each else "")
            command = f"test ! -e {PLACE}/bad-{step.tag} && echo '{line}' >> {PLACE}/log"
            with_ = {"hosts": step.hosts or "{{ members }}", "command": command}
            with_ |= {"unless": f"grep -qx '{line}' {PLACE}/log"} if step.way == "unless" else {}
            with_ |= {"repeatable": True} if step.way == "repeatable" else {}
            if step.asks:
                more["when"] = f"'on' {'in' if step.asks[0] else 'not in'} ({step.asks[1]} | string)"
        elif step.do == "assert":
            with_ = {"that": f"'on' in ({step.about} | string)", "message": "it is off"}
        elif step.do == "approve":
            with_ = {"question": step.tag}
        elif step.do == "config.set":
            with_ = {**SETTING, "value": step.about}
        return {"name": step.tag, "do": step.do, "with": with_, **more}


@dataclass(frozen=True, eq=False)
class Act:
    """What is done once: a step for one member of `each`, or for so many hosts."""

    step: Step
    line: str  # what it adds to the logs
    hosts: Sequence[str]
    most: int | None  # how many hosts may fail
    lane: str  # the member of a step that is `apart`
    path: tuple[tuple[object, str], ...]  # each playbook that it is in, from the outermost, and in which section

    @property
    def phase(self) -> str:
        """When its turn comes: the first section that is not `steps`."""
        return next((section for _, section in self.path if section != "steps"), "steps")

    @property
    def target(self) -> str:
        """What it changes so that everybody can see it: `service`, `config` or nothing."""
        return self.step.do.partition(".")[0] if self.step.do.startswith(("service.", "config.")) else ""

    @property
    def wanted(self) -> str:
        """How that is afterwards."""
        return {"service.start": "STARTED", "service.stop": "STOPPED"}.get(self.step.do, self.step.about)

    @property
    def mends(self) -> bool:
        """Whether it is done only where something has failed."""
        return any(section == "on_failure" for _, section in self.path)

    def inside(self, book: object) -> bool:
        """Whether it is in an included playbook, or in one that this includes."""
        return any(one is book for one, _ in self.path)


def acts(
    book: Book, members: Sequence[str], k: str = "", flag: bool = True, lane: str = "", path: Any = ()
) -> Iterator[Act]:
    """Yield all that a playbook does, as it is written: not in the order of its phases."""
    this = object()
    for section in SECTIONS:
        here = (*path, (this, section))
        for step in book[section]:
            if step.when and (step.when == "flag") is not flag:
                continue
            serial = step.keys.get("serial")
            for item in [""] if not step.each else step.each if serial is None else batches(step.each, serial):
                word = item if isinstance(item, str) else ", ".join(item)
                apart = lane or (word if "apart" in step.keys else "")
                if step.book is None:
                    hosts = step.hosts or members
                    most = share(step.keys["max_fail"], hosts) if "max_fail" in step.keys else None
                    for some in batches(hosts, serial) if serial is not None and not step.each else [hosts]:
                        line = f"{step.tag}{k}-{word}" if word else step.tag + k
                        yield Act(step, line, some, most, apart, here)
                    continue
                given = ([item] if isinstance(item, str) else item) if step.each and step.of_hosts else members
                inner = [*acts(step.book, given, f"{k}.{word}" if word else k, not flag, apart, here)]
                if any(name != "steps" for _, name in here) or any(one.phase == "steps" for one in inner):
                    yield from inner


def share(of: int | str, members: Sequence[str]) -> int:
    """Return how many of some a number or a part stands for."""
    return of if isinstance(of, int) else len(members) * int(of.rstrip("%")) // 100


def batches(members: Sequence[str], size: int | str) -> list[Sequence[str]]:
    """Return members so many at a time."""
    step = max(share(size, members), 1)
    return [members[first : first + step] for first in range(0, len(members), step)]


class Model:
    """A run, attempt by attempt; whoever mends what fails, or answers, changes `bad`, `on` and `answered`."""

    def __init__(self, book: Book, hosts: Sequence[str], bad: set[tuple[str, str]], on: bool, world: Any) -> None:
        self.acts = sorted(acts(book, hosts), key=lambda one: SECTIONS.index(one.phase))
        self.bad, self.on, self.world = bad, on, dict[str, str](world)
        self.logs: dict[str, list[str]] = {host: [] for host in hosts}
        self.outcomes: dict[Act, str] = {}  # of all that was begun, by now
        self.answered = set[Act]()
        self.waits = False  # for a person, and for nothing else among its `steps`
        self._values: dict[str, bool] = {}
        self._ended: dict[Act, set[str]] = {}  # hosts on which a command has ended well
        self._lost: dict[Act, set[str]] = {}  # hosts without which the run goes on
        self._again = set[Act]()  # what was over, and is done again all the same
        self._fresh, self._failed = set[Act](), set[Act]()  # in this attempt

    def attempt(self) -> int:
        """Carry out what is left, and return how the command ends."""
        self._begin_again()
        self._fresh, self._failed = set(), set()
        held = set[str]()
        for act in self._of("steps"):
            waits = act.lane in held if act.lane else bool(held)
            if waits or self._is_over(act) or self._carried_out(act):
                continue
            held.add(act.lane)
            if not act.lane:
                break
        failed = {act.lane for act in self._failed}
        self.waits = bool(held) and not failed
        well = {act for act in self.acts if act.lane and act.lane not in failed} if "" not in failed else set()
        for phase, spared in (("on_failure", well), ("finally", set[Act]())):
            for act in self._of(phase) if failed or phase == "finally" else ():
                if self._follows(act, spared):
                    self._carried_out(act)
        return 1 if self._failed or held else 7 if any(self._lost.values()) else 0

    @property
    def asks(self) -> list[Act]:
        """What waits for a person, in its order."""
        return [act for act in self.acts if self.outcomes.get(act) == "waiting"]

    def _of(self, phase: str) -> list[Act]:
        return [act for act in self.acts if act.phase == phase]

    def _is_over(self, act: Act) -> bool:
        return act not in self._again and self.outcomes.get(act, "failed") not in ("failed", "waiting")

    def _begin_again(self) -> None:
        self._again = set()
        over = [act for act in self.acts if self._is_over(act)]
        judged = {act.step.about for act, how in self.outcomes.items() if act.step.do == "assert" and how == "failed"}
        looks = {act for act in over if act.step.do == "look" and act.step.about in judged}
        self._again = looks | {act for act in over if act.phase != "steps" or self._put_back(act)}

    def _put_back(self, act: Act) -> bool:
        """Whether later steps may have undone an act: final ones, as always, only where more is still to come."""
        left = [one for one in self._of("steps") if not self._is_over(one)]
        more = any(self.acts.index(one) > self.acts.index(act) for one in left)
        others = [one for one in self.acts if one.target and one.target == act.target and one.wanted != act.wanted]
        undoing = [one for one in others if self.outcomes.get(one) == "done"]
        return any(one.phase == "on_failure" or (more and one.phase == "finally") for one in undoing)

    def _follows(self, act: Act, well: set[Act]) -> bool:
        """Whether an act of a final section follows: of an included playbook only where a step of it was begun.

        In a playbook that is included in a final section, `on_failure` follows only where a step of that one failed.
        """
        at = next(number for number, (_, section) in enumerate(act.path) if section != "steps")
        begun = (self._fresh if act in self._again else {*self.outcomes}) - well
        own = act.path[at][0]
        if at and not any(one.phase == "steps" and one.inside(own) for one in begun):
            return False
        mended = [book for book, section in act.path[at + 1 :] if section == "on_failure"]
        return all(any(one.inside(book) for one in self._failed) for book in mended)

    def _carried_out(self, act: Act) -> bool:
        self._fresh.add(act)
        if act in self._again and act.phase != "steps":  # on which hosts it ended counts no more
            self._ended.pop(act, None)
        self._again.discard(act)
        outcome = self.outcomes[act] = self._outcome(act)
        if outcome == "failed":
            self._failed.add(act)
        return outcome not in ("failed", "waiting")

    def _outcome(self, act: Act) -> str:
        step = act.step
        if step.asks:
            on, name = step.asks
            if name not in self._values:
                return "failed"
            if self._values[name] is not on:
                return "skipped"
        if step.do == "host.run":
            return self._run(act)
        if step.do == "look":
            self._values[step.about] = self.on
            return "done"
        if step.do == "approve":
            return "done" if act in self.answered else "waiting"
        if step.do == "assert":
            return "done" if self._values.get(step.about) else "failed"
        before, self.world[act.target] = self.world[act.target], act.wanted
        return "unchanged" if before == act.wanted else "done"

    def _gone(self) -> set[str]:
        return {host for hosts in self._lost.values() for host in hosts}

    def _run(self, act: Act) -> str:
        ended, lost = self._ended.setdefault(act, set()), self._lost.setdefault(act, set())
        while True:
            hosts = [one for one in act.hosts if act.phase != "steps" or one not in self._gone()]
            if not hosts:
                return "done" if lost else "skipped"
            there = {one for one in hosts if act.line in self.logs[one]} if act.step.way == "unless" else ended
            failing = {one for one in hosts if one not in there and (act.step.tag, one) in self.bad}
            for host in hosts:
                if host not in there | failing:
                    self.logs[host].append(act.line)
                    ended.add(host)
            if not failing:
                return "done" if ended & {*hosts} else "unchanged"
            if act.phase != "steps" or act.most is None or len(self._gone() | failing) > act.most:
                return "failed"
            lost |= failing
