"""Functions of CEL by topic. The functions named `library` and the like in each module return their declarations."""
