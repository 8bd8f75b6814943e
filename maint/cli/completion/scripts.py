"""The scripts that make a shell ask `maint` how a command could go on, and offer what it answers."""

from maint.cli.completion import FILES, SHELLS, VARIABLE
from maint.errors import UsageError

_BASH = r"""# Completion of maint for bash: put it into /etc/bash_completion.d/maint, or source it.
_maint_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            FILES*) compopt -o default 2>/dev/null ;;
            *)
                line="${line%%$'\t'*}"
                COMPREPLY+=("$line")
                [[ "$line" != *= ]] || compopt -o nospace 2>/dev/null
                ;;
        esac
    done < <(VARIABLE=1 "${COMP_WORDS[0]/#\~/$HOME}" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _maint_completion maint
"""
_ZSH = r"""#compdef maint
# Completion of maint for zsh: save it as _maint in a folder of $fpath, or source it after compinit.
_maint() {
    local -a answers
    local line files
    while IFS= read -r line; do
        if [[ "$line" == FILES* ]]; then
            files=1
            continue
        fi
        answers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <(VARIABLE=1 "${(Q)words[1]/#\~/$HOME}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    (( ${#answers} )) && _describe -V maint answers
    [[ -z "$files" ]] || _files
}
if [[ "${funcstack[1]}" == "_maint" ]]; then
    _maint "$@"
else
    compdef _maint maint
fi
"""
_FISH = r"""# Completion of maint for fish: save it as ~/.config/fish/completions/maint.fish.
function __maint_completion
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (VARIABLE=1 $words "$current" 2>/dev/null)
        if string match -q 'FILES*' -- $line
            __fish_complete_path $current
        else
            echo $line
        end
    end
end
complete -c maint -f -k -a '(__maint_completion)'
"""
_SCRIPTS = dict(zip(SHELLS, (_BASH, _ZSH, _FISH), strict=True))


def script_for(shell: str) -> str:
    """Return the script that makes a shell complete our commands; UsageError where there is none for it."""
    if shell not in _SCRIPTS:
        raise UsageError(f"there is no completion for {shell!r}", hint=f"there is one for {', '.join(SHELLS)}")
    return _SCRIPTS[shell].replace("FILES", FILES).replace("VARIABLE", VARIABLE)
