"""The live catalog: which resources, versions and gates a server serves."""
