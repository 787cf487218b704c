"""The API server of kubedra.

Reading order:

    api/schema, api/types     schemas, and the types of all kinds
    registry/definition       resource definitions
    resources/                all served resources, by API group
    registry/verbs            create, update, patch, delete, get, list, watch
    storage/                  the revision log and the watch caches
    http/handlers/chain.py    the handlers that a request passes
    app.py                    the wiring of all parts
    controlplane/             the objects that a server maintains by itself
    options/, command/        flags and processes

Importing this package imports nothing else, so that `apiserver.api` stays cheap for clients.
"""
