"""Objects in Go's `%v` format, as events of upstream's controllers contain them."""

from __future__ import annotations

from apiserver.api.objects import Json


def label_selector_text(selector: Json | None) -> str:
    """Format a LabelSelector."""
    if selector is None:
        return "nil"
    labels = selector.get("matchLabels") or {}
    pairs = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    requirements = "".join(
        f"LabelSelectorRequirement{{Key:{each['key']},Operator:{each['operator']},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
