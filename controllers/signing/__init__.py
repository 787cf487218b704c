"""The authority that signs certificates, its options, and its signers' rules."""
