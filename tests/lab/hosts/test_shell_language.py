"""The lab's shell agrees with the machine's own /bin/sh on what needs nothing but the shell."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import Ended, run

SH = shutil.which("dash")

SNIPPETS = r"""
echo a  b   c
echo "a  b" 'c  d' e\ f
echo 'single "double" inside' "double 'single' inside"
echo "back\\slash \$x \`y\` \"q\" \n"
printf '%s\n' a b c
printf 'a\tb\\n\n'
printf '%s'
printf '%%|%s\n' x
printf '\101\n'
echo -n no newline
echo 'tab\there'
x=1; echo $x ${x} "${x}y" $xy
x=; echo "[${x:-default}]" "[${x-default}]" "[${x:+set}]" "[${x+set}]"
unset x; echo ${x:?is missing}; echo not reached
echo ${x:=assigned} $x; : "${x:=other}"; echo $x
x=path/to/file.tar.gz; echo ${x%.*} ${x%%.*} ${x#*/} ${x##*/}
x='a*b'; echo "${x%\**}" "${x#*'*'}"
x=abc; y=b; echo "${x%$y*}" "${x#a"$y"}"
x="a b"; echo "${x:-"$y z"}"
echo ${u:-a b} "${u:-a  b}" ${u:-"a  b"}
x='  a   b  '; echo $x; echo "$x"
x=$(echo sub); echo "[$x]"
echo "$(echo "nested $(echo deep)")"
x=$(printf 'a\n\n\n'); echo "[$x]"
echo $(printf 'a\nb\n')
echo "$(printf 'a\nb\n')"
echo $((1+2*3)) $(( (1+2)*3 )) $((7/2)) $((7%3)) $((3-5)) $((10/5/2))
x=5; echo $((x)) $((x+1)) $(($x*2)) $((x - 7))
x=$((1+$(echo 2))); echo $x
f() { echo $# "$1" "$2" $3; }; f a "b c" d
f() { for i in "$@"; do echo "<$i>"; done; }; f a "b c" d; f
f() { for i; do echo "<$i>"; done; }; f a "b c" d
f() { echo "x$@y"; }; f a b
true && echo yes || echo no
false && echo yes || echo no
true || echo no; echo after
! true; echo $?
! false; echo $?
false; echo $?
(exit 3); echo $?
{ echo a; echo b; }
(x=inner; echo $x); echo "[$x]"
x=outer; (x=inner); echo $x
x=outer; { x=inner; }; echo $x
if true; then echo yes; fi
if false; then echo a; elif true; then echo b; else echo c; fi
if false; then echo a; fi; echo $?
if ! false; then echo negated; fi
for i in 1 2 3; do echo $i; done
for i in; do echo $i; done; echo empty
for i in a b c; do if [ $i = b ]; then continue; fi; echo $i; done
for i in a b c; do if [ $i = b ]; then break; fi; echo $i; done
i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done
while false; do :; done; echo $?
case abc in abc) echo exact;; esac
case abc in x*) echo x;; a*) echo a;; *) echo other;; esac
case abc in a|b) echo no;; abc|d) echo yes;; esac
case "a b" in "a "*) echo yes;; esac
case a in [abc]) echo in;; esac
case d in [!abc]) echo out;; esac
case '*' in \*) echo star;; esac
x='*'; case abc in "$x") echo no;; $x) echo yes;; esac
case x in (x) echo parens;; esac
case "" in "") echo empty;; esac
case no in yes) echo;; esac; echo $?
f() { echo "f $1 $#"; }; f a b
f() { x=changed; }; x=1; f; echo $x
f() { g; }; g() { echo from g; }; f
f() (x=sub; echo $x); x=1; f; echo $x
f() { echo out; } >&2; f 2>&1
x=1 y=2; echo $x$y
x=1; x=2 echo $x; echo $x
f() { echo $v; }; v=tmp f
echo a | read -r x; echo "[$x]"
echo "a b c" | { read -r x y; echo "$x|$y"; }
printf 'a\\b\n' | { read -r x; printf '%s\n' "$x"; }
printf '  lead trail  \n' | { read -r x; echo "[$x]"; }
printf 'no newline' | { read -r x; echo "$? $x"; }
printf 'a\nb\n' | while read -r l; do echo "<$l>"; done
printf 'x\ny\n' | { read -r a; read -r b; echo $b$a; }
echo hidden > /dev/null; echo shown
echo err >&2
{ echo out; echo err >&2; } 2>&1
{ echo out; echo err >&2; } 2>/dev/null
echo to2 2>/dev/null 1>&2; echo $?
exec 3>&1; echo three >&3
[ a = a ] && echo eq; [ a != b ] && echo ne
[ -z "" ] && echo z; [ -n x ] && echo n; [ x ] && echo x; [ "" ] || echo empty
[ 1 -lt 2 ] && [ 2 -le 2 ] && [ 3 -gt 2 ] && [ 3 -ge 3 ] && [ 1 -ne 2 ] && echo ok
[ ! a = b ] && echo not; test ! -e /no/such && echo absent
[ = = = ] && echo equals
[ -d / ] && echo folder
test x = x; echo $?; test x = y; echo $?
set -e; false || true; echo here; false; echo not here
set -e; if false; then :; fi; ! true; echo still
set -e; f() { false; echo in; }; f || echo no
set -e; (exit 4); echo no
set -e; x=$(false); echo no
set -u; echo ${x-unset}; echo $x; echo no
trap 'echo bye' EXIT; echo hi
trap 'echo bye $?' EXIT; exit 3
trap 'echo bye' EXIT; (echo sub); false
exit 7
(exit 300); echo $?
echo a; exit; echo b
export X=1; sh -c 'echo $X'
X=1; sh -c 'echo [$X]'
X=1 sh -c 'echo $X'
sh -c 'echo $0 $1 $#' name a b
echo 'echo from stdin $1' | sh -s arg
command -v echo; command -v nosuchthing; echo $?
nosuchcommand; echo $?
cd /no/such/folder || echo failed
umask 022; umask
: ignored $(echo "runs" >&2); echo $?
echo "a
b"
echo a \
b
echo one; # comment
echo a#b 'c # d'
echo {a,b} ~+x
echo a;echo b
echo a&&echo b||echo c
a=1; b=$a$a; c="$b-$a"; echo $c
echo "${x:-${y:-deep}}"
x='"quoted"'; echo $x
echo \$x \\ \a \'
echo "" | { read -r x; echo "[$x]"; }
true | false; echo $?
false | true; echo $?
echo abc | { read -r a; echo $a; } | { read -r b; echo "<$b>"; }
(echo a; echo b) | { read -r x; read -r y; echo $y $x; }
if (true; false); then echo y; else echo n; fi
x=0; for i in 1 2 3; do x=$((x+i)); done; echo $x
fi
echo "unterminated
if true; then echo
""".strip("\n")

BLOCKS = [
    "if true\nthen\n  echo a\nelse\n  echo b\nfi",
    "for i in a \\\n  b\ndo\n  echo $i\ndone",
    "case x in\n  y) echo y ;;\n  x)\n    echo x\n    ;;\nesac",
    "f()\n{\n  echo body\n}\nf",
    "true &&\n  echo continued",
    'echo a |\n  while read -r x; do echo "<$x>"; done',
    "# only a comment\n\n\necho after",
    "x='multi\nline'\necho \"$x\"\necho $x",
    'echo "$(\n  echo inner\n)"',
    "(\n  echo sub\n  exit 2\n)\necho $?",
    "set -e\nf() { false\n echo survived; }\nif f; then echo ok; fi",
]

LINES = SNIPPETS.split("\n")


def _real(script: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [str(SH), "-c", script],
        capture_output=True,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": "/root"},
        timeout=20,
    )


def _scripts() -> list[str]:
    joined = "\n".join(LINES).replace('echo "a\nb"', "@1").replace("echo a \\\nb\n", "@2\n")
    return [s.replace("@1", 'echo "a\nb"').replace("@2", "echo a \\\nb") for s in joined.split("\n")] + BLOCKS


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("one", tmp_path / "one", {})


@pytest.mark.skipif(SH is None, reason="no dash on this machine to compare with")
@pytest.mark.parametrize("script", _scripts())
def test_the_shell_answers_as_the_real_one(script: str, machine: Machine, tmp_path: Path) -> None:
    ours, real = run(machine, script), _real(script, tmp_path)
    assert (ours.status, ours.out) == (real.returncode, real.stdout), (ours.err, real.stderr)
    assert bool(ours.err) == bool(real.stderr)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_a_single_quoted_text_is_taken_as_it_is(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"
    assert _pure(f"printf %s {quoted}").out == text.encode()


@given(st.lists(st.text("ab :\t\n*?[]\\'\"$", max_size=6), max_size=5))
def test_quoted_arguments_survive_a_variable(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    script = f"f() {{ printf '%s.' \"$@\"; }}; f {quoted}"
    assert _pure(script).out == "".join(f"{word}." for word in words or [""]).encode()


OPERATORS = st.sampled_from(["+", "-", "*"])
EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.tuples(inner, OPERATORS, inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=6,
)


@pytest.mark.skipif(SH is None, reason="no dash on this machine to compare with")
@given(EXPRESSIONS)
def test_arithmetic_agrees_with_the_real_shell(expression: str) -> None:
    script = f"echo $(({expression}))"
    assert _pure(script).out == _real(script, Path("/")).stdout


@given(st.text("ab;&|(){}<>$'\"`\\\n #=!*-", max_size=25))
def test_no_text_breaks_the_shell(script: str) -> None:
    assert 0 <= _pure(script).status < 256
    assert b"the lab itself failed" not in _pure(script).err


_MACHINE: list[Machine] = []


@pytest.fixture(scope="module", autouse=True)
def _one_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    _MACHINE[:] = [Machine("pure", tmp_path_factory.mktemp("pure") / "root", {})]


def _pure(script: str) -> Ended:
    return run(_MACHINE[0], script)


def test_a_command_that_begins_like_an_earlier_one_is_read_to_its_own_end() -> None:
    """What was parsed is remembered by its first line, and taken again only where every line is the same."""
    first = "f() {\n  echo one\n}\nf\n"
    assert [_pure(text).out for text in (first, first.replace("one", "two"), first)] == [b"one\n", b"two\n", b"one\n"]
    assert _pure("if true\nthen\n  echo 3\nfi\n").out == b"3\n"
    assert b"end of file" in _pure("if true\nthen\n  echo 3\n").err
    reads_on = b"if true; then\n  cat\nfi\n"
    for rest in (b"rest 1\n", b"rest 2\n"):  # no line is fetched that the command itself is to read
        assert run(_MACHINE[0], "sh", reads_on + rest).out == rest
