"""Write OpenAPI documents from the catalog and the schemas into `openapi/` at the project's root.

    python -m apiserver.openapi --write    after a change of types or resources
    python -m apiserver.openapi --check    in CI: exit code 1 and the names of outdated files

The server never builds them: `apiserver.http.documents.openapi` reads the files at the first request.
"""
