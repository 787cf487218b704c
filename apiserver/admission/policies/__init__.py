"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy, and the CEL expressions of policies and webhooks."""
