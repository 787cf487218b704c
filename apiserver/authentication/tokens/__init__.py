"""Bearer tokens: service accounts, external signers, token reviewers, bootstrap tokens."""
