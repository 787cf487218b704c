"""The published language: types, errors, selectors, quantities, CEL. Pure: no I/O, no event loop.

The one part of the server that `controllers` may import.
"""
