"""OpenAPI documents, written from the catalog and the schemas into `openapi/` at the project's root.

    python -m apiserver.openapi --write    after a change of types or resources
    python -m apiserver.openapi --check    in CI: exit code 1 and the names of files that are not current

The server never builds them: `apiserver.http.documents.openapi` reads the files when it is first asked.
"""
