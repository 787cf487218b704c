"""Files of tokens."""

from __future__ import annotations

from pathlib import Path


def token_flag(directory: Path, tokens: str = 'root,root,1,"system:masters"\n') -> str:
    """Write a file of tokens, by default that of an administrator; return the flag that names it."""
    file = directory / "tokens.csv"
    file.write_text(tokens)
    return f"--token-auth-file={file}"
