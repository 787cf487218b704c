"""Who may do what: roles and their bindings, the nodes' rights, and the objects that every server with RBAC begins
with.
"""
