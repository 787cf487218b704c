"""Types of admissionregistration.k8s.io: rules that say which requests, and the policies that use them."""
