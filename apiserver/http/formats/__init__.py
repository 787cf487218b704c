"""Content negotiation, and the encoding of objects, lists and watch events."""
