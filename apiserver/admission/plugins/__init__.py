"""Admission plugins, one per file; `registered` lists them in upstream's order."""
