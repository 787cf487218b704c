"""The processes of `python -m apiserver`.

They are serve, credentials, cel, data, kubeconfig, and kube-apiserver's stand-in for envtest.
"""
