"""Dynamic resource allocation in the scheduler: the plugin DynamicResources and the claims that it reads and writes."""
