"""Flags that name files, as kube-apiserver's are read: an empty name is none."""

from __future__ import annotations

import pytest

from apiserver.options.flags import SettingsError, parser
from apiserver.options.settings import read

pytestmark = pytest.mark.integration

FILES = sorted(
    name
    for action in parser()._actions
    if action.metavar == "FILE"
    for name in action.option_strings
    if name[:2] == "--"
)


@pytest.mark.parametrize("flag", FILES)
def test_a_file_without_a_name_is_as_if_its_flag_were_not_given(flag: str) -> None:
    without = parser().parse_args(["--storage=memory"])
    assert parser().parse_args(["--storage=memory", f"{flag}="]) == without
    assert parser().parse_args([flag, "", "--storage=memory"]) == without


def test_other_flags_may_be_empty_and_a_file_has_to_have_a_name_after_its_flag() -> None:
    assert read(["--storage=memory", "--feature-gates="]).storage == "memory"
    with pytest.raises(SettingsError, match="--client-ca-file: expected one argument"):
        read(["--client-ca-file"])
    with pytest.raises(SettingsError, match="unrecognized arguments: --no-such-file="):
        read(["--no-such-file="])


@pytest.mark.parametrize(("flags", "name"), [((), ""), (("none",), ""), (("",), ""), (("standard",), "standard")])
def test_no_storage_class_is_created_for_none(flags: tuple[str, ...], name: str) -> None:
    settings = read(["--storage=memory", *(f"--storage-class={flag}" for flag in flags)])
    assert settings.storage_class == name
