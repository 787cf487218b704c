"""Plugins, one subject a file; those of devices and volumes are in `dra` and `storage`."""
