"""Controllers of cluster-wide objects: roles, root CA, service accounts, quotas, service CIDRs, policies."""
