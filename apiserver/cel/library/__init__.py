"""Functions of CEL by topic. Every module has `library()`, the declarations of its functions."""
