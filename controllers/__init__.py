"""Clients of the REST API: what makes the control plane move.

Everything here sees the server as any client does: list, watch, get, create, update, patch, bind. From `apiserver` it
may import only `apiserver.api`, the published language of types, `apiserver.cel` and `apiserver.runtime`. Read
`runtime/` first (client, informer, workqueue, controller), then
`manager/manager.py`, which starts the chosen components under one task group.
"""
