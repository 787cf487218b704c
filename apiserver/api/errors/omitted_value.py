"""Placeholders for values in field errors. Types import this module, so it must stay light."""

from __future__ import annotations

from typing import Final

#: The error shows no value.
OMITTED: Final = object()
