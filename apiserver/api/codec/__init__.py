"""Request bodies in JSON, YAML and CBOR, decoded as Go decodes them, and objects encoded."""
