"""Conversations: requests to an API server with the answers that are expected.

docs/howto/contributing/add-a-conversation.md has the format of their files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apiserver.api.objects import Json

#: Flags of every server that conversations are held with.
_COMMON_FLAGS = ("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction")


@dataclass(frozen=True, slots=True, order=True)
class Profile:
    """What the server of a conversation is started with: release, gates, served versions, admission plugins."""

    emulated_version: str = "1.36"
    feature_gates: str = ""
    runtime_config: str = ""
    disable_admission_plugins: str = "ServiceAccount"

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Profile:
        """Parse a profile. Raise TypeError for an unknown name."""
        return cls(**given)

    def flags(self, tokens: Path) -> tuple[str, ...]:
        return (
            f"--emulated-version={self.emulated_version}",
            f"--feature-gates={self.feature_gates}",
            f"--runtime-config={self.runtime_config}",
            f"--disable-admission-plugins={self.disable_admission_plugins}",
            f"--token-auth-file={tokens}",
            *_COMMON_FLAGS,
        )


@dataclass(frozen=True)
class Conversation:
    """One conversation. `file` is its file's path in its folder, without the ending."""

    file: str
    name: str
    profile: Profile
    steps: tuple[Json, ...]

    @property
    def title(self) -> str:
        return f"{self.file}: {self.name}"


def load_file(path: Path, root: Path) -> list[Conversation]:
    """Load the conversations of a JSON file below `root`."""
    file = path.relative_to(root).with_suffix("").as_posix()
    return [
        Conversation(file, given["name"], Profile.read(given.get("profile", {})), tuple(given["steps"]))
        for given in json.loads(path.read_text())
    ]


def load(root: Path, under: str = "") -> list[Conversation]:
    """All conversations of a folder, or those of one file or folder in it, by file."""
    place = root / under
    files = [place] if place.is_file() else sorted(place.rglob("*.json"))
    return [conversation for file in files for conversation in load_file(file, root)]
