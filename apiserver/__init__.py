"""The API server of kubedra.

Reading order: `api.schema` (what a type is) → `api.types` (the kinds' types) → `registry.resource` (what a resource is)
→ `resources` (the catalog of everything served) → `registry.store` (the one create/update/delete/list/watch) →
`storage` (the revision log and the watch caches) → `http.handlers.chain` (the way of a request) → `app` (all wired
together).

Importing this package imports nothing else, so that `apiserver.api` stays cheap for clients.
"""
