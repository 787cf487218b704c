"""Describe operations by their verb and kind, and build ids and tags from names.

Facts: k8s.io/apiserver, pkg/endpoints/{installer,openapi/openapi}.go. Generated clients show the same phrases.
"""

from __future__ import annotations

__all__ = ["connection", "identifier", "operation", "tag_of"]

_VOWELS = "aeiou"
_LIST = "deprecated: use the 'watch' parameter with a list operation instead"


def operation(verb: str, kind: str, sub: str = "", *, watchable: bool = True) -> str:
    """Describe an operation.

    `verb` is that of its id (`watchList` for the old paths of watches), `sub` its subresource. `watchable` applies to
    lists.
    """
    part = f" {sub} of" if sub else ""
    match verb:
        case "list":
            return f"list{' or watch' if watchable else ''} objects of kind {kind}"
        case "create" | "delete":
            return f"{verb}{part}{_article(kind)}{kind}"
        case "patch":
            return f"partially update{part} the specified {kind}"
        case "deletecollection":
            return f"delete collection of {kind}"
        case "watch":
            narrowed = ", filtered to a single item with the 'fieldSelector' parameter."
            return f"watch changes to an object of kind {kind}. {_LIST}{narrowed}"
        case "watchList":
            return f"watch individual changes to a list of {kind}. {_LIST}."
    return f"{verb}{part} the specified {kind}"


def connection(method: str, kind: str, sub: str) -> str:
    return f"connect {method.upper()} requests to {sub} of {kind}"


def _article(kind: str) -> str:
    """Return the article between a verb and a kind, with spaces; plurals get none."""
    if kind.endswith("s") and not kind.endswith("ss"):
        return " "
    return " an " if kind[:1].lower() in _VOWELS else " a "


def identifier(name: str, *, capital: bool) -> str:
    """Convert a name to a part of an id: letters, digits and underscores, in camel case at other characters."""
    made = []
    for at, letter in enumerate(name):
        if letter.isalpha() or letter == "_" or (at and letter.isdigit()):
            made.append(letter.upper() if capital else letter)
            capital = False
        else:
            capital = True
    return "".join(made)


def tag_of(group: str, version: str = "") -> str:
    """Return the tag of operations: `resource.k8s.io` and `v1` → resource_v1, `x.io` → xIo, the core group → core."""
    tag = identifier((group or "core").removesuffix(".k8s.io"), capital=False)
    return f"{tag}_{identifier(version, capital=False)}" if version else tag
