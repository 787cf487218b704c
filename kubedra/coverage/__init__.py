"""Coverage of the control plane's behaviours by a test suite (`pytest --kubedra-cov`)."""
