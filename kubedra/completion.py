"""Shell completion: commands, and the flags of each, which the command's own help names when they are asked for."""

from __future__ import annotations

SHELLS = ("bash", "zsh")
COMMANDS = (
    "up",
    "serve",
    "status",
    "logs",
    "down",
    "controllers",
    "node",
    "credentials",
    "health",
    "cel",
    "explain",
    "simulate",
    "completion",
    "version",
)

_BASH = """\
_kubedra() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$current"))
    elif [ "$command" = node ] && [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W "add" -- "$current"))
    elif [ "$command" = completion ]; then
        COMPREPLY=($(compgen -W "{shells}" -- "$current"))
    elif [[ "$current" == -* ]]; then
        local words="$command"
        [ "$command" = node ] && words="node add"
        COMPREPLY=($(compgen -W "$(kubedra $words --help 2>/dev/null | \\
        grep -oE -- '--[a-z][a-z-]+' | sort -u)" -- "$current"))
    fi
}}
complete -o default -F _kubedra kubedra
"""


def script(shell: str) -> str:
    """The script for a shell of SHELLS; zsh runs the same function through its bash compatibility."""
    text = _BASH.format(commands=" ".join(COMMANDS), shells=" ".join(SHELLS))
    return text if shell == "bash" else "autoload -U +X bashcompinit && bashcompinit\n" + text
