"""A DRA driver as a program of its own, started by driver-crash.yaml."""

import os
import signal

from kubedra.driver import Driver


class Gpus(Driver):
    name = "gpu.example.com"

    def devices(self):
        return [{"name": "gpu-0"}]

    def prepare(self, claim):
        return {device: [f"example.com/gpu={device}"] for device in claim.devices}

    def unprepare(self, claim):
        pass


if __name__ == "__main__":
    directories = {
        "plugin_dir": os.environ["KUBELET_PLUGINS_DIRECTORY_PATH"],
        "registry_dir": os.environ["KUBELET_REGISTRAR_DIRECTORY_PATH"],
    }
    with Gpus().run(node=os.environ["NODE_NAME"], kubeconfig=os.environ["KUBECONFIG"], **directories) as running:
        running.wait_registered()
        print("registered", flush=True)
        signal.pause()
