"""Groups of pods that are scheduled together (gate GenericWorkload)."""
