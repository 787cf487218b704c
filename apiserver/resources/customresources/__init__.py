"""CustomResourceDefinitions, and the resources that they define.

definitions   the kind CustomResourceDefinition: its rules
schemas/…     rules of the schemas that definitions bring
names         which names a definition gets, and its conditions
coercion      objects brought into the form of a schema: pruned, without stray nulls, defaulted
fieldtypes    a schema as server-side apply sees it
kinds         the resource of a definition, as the catalog serves it
following     keeps catalog and statuses up to date with the stored definitions
"""
