"""Shell completion of commands and flags. The script reads the flags from `kubedra COMMAND --help-all`."""

from __future__ import annotations

import re

SHELLS = ("bash", "zsh", "fish")
#: A line of `kubedra --help`: a command and its optional subcommand.
_LISTED = re.compile(r"(?m)^  (?P<first>[a-z]+(?:-[a-z]+)*)(?: (?P<second>[a-z]+(?:-[a-z]+)*))? {2,}\S")

_BASH = """\
_kubedra() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$current"))
{seconds}\
    elif [ "$command" = completion ]; then
        COMPREPLY=($(compgen -W "{shells}" -- "$current"))
    elif [[ "$current" == -* ]]; then
        local words="$command"
        case " {pairs} " in *" $command/${{COMP_WORDS[2]}} "*) words="$command ${{COMP_WORDS[2]}}" ;; esac
        COMPREPLY=($(compgen -W "$(kubedra $words --help-all 2>/dev/null | \\
        grep -oE -- '--[a-z][a-z-]+' | sort -u)" -- "$current"))
    fi
}}
complete -o default -F _kubedra kubedra
"""


_FISH = """\
function __kubedra_flags
    set -l words (commandline -opc)[2..-1]
    set -l command $words[1]
    if contains -- "$command/$words[2]" {pairs}
        set command $words[1] $words[2]
    end
    kubedra $command --help-all 2>/dev/null | string match -ra -- '--[a-z][a-z-]+' | sort -u
end
complete -c kubedra -n __fish_use_subcommand -f -a "{commands}"
{seconds}\
complete -c kubedra -n "__fish_seen_subcommand_from completion" -f -a "{shells}"
complete -c kubedra -n "string match -q -- '-*' (commandline -ct)" -f -a "(__kubedra_flags)"
"""
_FISH_SECOND = """\
complete -c kubedra -n "__fish_seen_subcommand_from {first}" -f -a "{seconds}"
"""
_SECOND = """\
    elif [ "$command" = {first} ] && [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W "{seconds}" -- "$current"))
"""


def commands(usage: str) -> dict[str, list[str]]:
    """Return the commands in a usage text, each with its subcommands."""
    found: dict[str, list[str]] = {}
    for listed in _LISTED.finditer(usage):
        seconds = found.setdefault(listed["first"], [])
        if listed["second"]:
            seconds.append(listed["second"])
    return found


def script(shell: str, usage: str) -> str:
    """Return the script for a shell of SHELLS; zsh runs the bash function through its bash compatibility."""
    known = commands(usage)
    template, second = (_FISH, _FISH_SECOND) if shell == "fish" else (_BASH, _SECOND)
    parts = [second.format(first=first, seconds=" ".join(seconds)) for first, seconds in known.items() if seconds]
    pairs = " ".join(f"{first}/{second}" for first, seconds in known.items() for second in seconds)
    text = template.format(commands=" ".join(known), shells=" ".join(SHELLS), seconds="".join(parts), pairs=pairs)
    return "autoload -U +X bashcompinit && bashcompinit\n" + text if shell == "zsh" else text
