"""Authorization: roles and bindings, the nodes' rights, and the bootstrap policy of RBAC."""
