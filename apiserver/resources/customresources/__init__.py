"""CustomResourceDefinitions, and the resources that they define.

definitions      the kind CustomResourceDefinition; its rules are in `definition_rules`
schema_rules     the rules of the schemas in definitions, with the other modules `*_rules`
names            the accepted names of a definition, and its conditions
coercion         pruning and defaulting of objects by a schema
fieldtypes       a schema's types for server-side apply
kinds            the resource of a definition, as the catalog serves it
"""
