"""The options of components, their names, and what their command lines share."""
