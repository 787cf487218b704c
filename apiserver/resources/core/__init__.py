"""Kinds of the core group without a package of their own."""
