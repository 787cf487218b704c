"""The bytes of answers: which format a client wants, and objects, lists and watch events in it."""
