"""The scheduling cycle: profiles, node selection, watch events, metrics; `plugins` has upstream's order."""
