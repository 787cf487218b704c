"""The node agent: kubelets for nodes without machines.

A Node is emulated if it has the annotation `kubedra.dev/emulated`. The agent is its kubelet (`agent`: capacity,
conditions, lease, and the pods from binding to their end). It is also the node's example driver (`emulation`: a
ResourceSlice with the GPUs of `kubedra.dev/devices`). At start it creates the nodes of `--nodes`. One agent serves any
number of nodes.
"""

from __future__ import annotations

from controllers.kubelet.agent import NodeAgent
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers


def build(client: Client, informers: Informers, options: Options) -> NodeAgent:
    """Build the component for the manager."""
    return NodeAgent(client, informers, options)
