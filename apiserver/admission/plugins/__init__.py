"""Admission plugins, one a file; `registered` lists them in upstream's order."""
