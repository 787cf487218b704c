"""Admission: plugins that change or refuse a write between authorization and validation."""
