"""Device taint eviction and the status of DeviceTaintRules."""
