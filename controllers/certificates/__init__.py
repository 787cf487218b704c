"""CertificateSigningRequests: who asks for a node's own certificate is approved, what was approved is signed, and what
is over is deleted. And the ClusterTrustBundle of the API server's certificate.
"""
