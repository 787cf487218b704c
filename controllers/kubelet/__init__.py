"""The node agent: nodes without machines.

A Node is emulated when it carries the annotation `kubedra.dev/emulated`. The agent then is its kubelet (`agent`:
capacity, conditions, lease; pods from bind to Running to their end), its example driver (`devices`: the ResourceSlice
of `kubedra.dev/devices` GPUs), and at start it creates the nodes that `--nodes` asks for (`provision`). One agent cares
for any number of nodes.
"""

from __future__ import annotations

from controllers.kubelet.agent import NodeAgent
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers


def build(client: Client, informers: Informers, options: Options) -> NodeAgent:
    """The component, for the manager."""
    return NodeAgent(client, informers, options)
