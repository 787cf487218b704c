"""CertificateSigningRequest controllers, and the ClusterTrustBundle of the API server's certificate.

Requests of nodes for their own certificates are approved, approved requests are signed, and old requests are deleted.
"""
