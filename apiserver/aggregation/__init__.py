"""Other API servers behind this one: APIServices that name a service (docs/adr/0030-aggregation.md)."""
