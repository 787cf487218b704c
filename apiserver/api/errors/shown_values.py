"""Placeholders for the values that field errors show. Types import it: it must stay light."""

from __future__ import annotations

from typing import Final

#: The error shows no value.
OMITTED: Final = object()
