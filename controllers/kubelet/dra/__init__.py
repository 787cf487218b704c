"""Dynamic resource allocation on a node: what a kubelet does with the claims of its pods.

`drivers` is the protocol between kubelet and driver; `manager` calls it, remembers in `cache` what is prepared, and
writes that to a file in `checkpoint`; `health` keeps what drivers say of their devices. Nothing here knows whether a
driver is emulated or behind a socket.
"""
