"""The live catalog: the served resources, versions and gates."""
