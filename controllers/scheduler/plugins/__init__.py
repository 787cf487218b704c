"""Plugins, one subject per file; those of devices and volumes are in `dra` and `storage`."""
