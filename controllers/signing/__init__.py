"""The authority that signs certificates, its options, and the purposes that it signs for."""
