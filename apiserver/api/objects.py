"""The forms of an object, as types: a signature names the accepted and the returned form.

Stored     bytes of the log: JSON, metadata first, hub form, without kind, apiVersion and resourceVersion
Hub        a private copy in hub form, without kind and apiVersion: may be changed in place
Shared     an object in hub form that all readers have in common: never changed
Versioned  an object in the terms of one API version, with its kind and apiVersion
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NewType

__all__ = ["Hub", "Json", "Shared", "Stored", "UpdateFunc", "Versioned"]

Json = dict[str, Any]

Stored = NewType("Stored", bytes)
Hub = NewType("Hub", Json)
Shared = NewType("Shared", Json)
Versioned = NewType("Versioned", Json)

#: Change a private copy of the stored object. Called again after a conflict with another writer.
UpdateFunc = Callable[[Hub], Hub]
