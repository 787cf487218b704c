"""Types of admissionregistration.k8s.io: the rules that match requests, and the policies that use them."""
