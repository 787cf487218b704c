"""The API server of kubedra.

Reading order:

    api/schema, api/types     what a type is, and the types of all kinds
    registry/definition       what a resource is
    resources/                everything served, by API group
    registry/verbs            create, update, patch, delete, get, list, watch
    storage/                  the revision log and the watch caches
    http/handlers/chain.py    the way of a request
    app.py                    how all of it is wired
    controlplane/             what a server maintains by itself
    options/, command/        flags, and the processes

Importing this package imports nothing else, so that `apiserver.api` stays cheap for clients.
"""
