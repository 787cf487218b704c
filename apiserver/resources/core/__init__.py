"""Kinds of the core group that have no package of their own."""
