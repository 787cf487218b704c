"""Dynamic resource allocation on a node: how a kubelet handles the claims of its pods.

`drivers` is the protocol between kubelet and driver. `manager` calls the drivers, records the prepared claims in
`cache`, and saves them with `checkpoint`. `health` stores the device health reported by drivers. All of it works for
emulated drivers and for drivers behind a socket.
"""
