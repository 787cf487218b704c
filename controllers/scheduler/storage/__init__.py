"""Volumes in the scheduler: the plugin VolumeBinding and the plugins that limit volumes."""
