"""A DRA driver for accelerators that an inventory file describes.

The file is {"acc-0": {"model": "A1", "memory": "40Gi", "celsius": 40}}.
Run it with `python accelerators.py --node=NAME --inventory=FILE`.
"""

import argparse
import json
import threading
from pathlib import Path

from kubedra import Client
from kubedra.driver import Driver

KIND = "example.com/accelerator"
HOT = 90
MODES = ("exclusive", "time-sliced")


class Accelerators(Driver):
    name = "accelerator.example.com"

    def __init__(self, inventory, cdi_dir, kubeconfig):
        self.inventory, self.cdi_dir, self.kubeconfig = Path(inventory), Path(cdi_dir), kubeconfig

    def read(self):
        return json.loads(self.inventory.read_text())

    def devices(self):
        """Return the devices; the hot ones have a taint that evicts pods."""
        for name, found in self.read().items():
            device = {
                "name": name,
                "attributes": {"model": {"string": found["model"]}},
                "capacity": {"memory": {"value": found["memory"]}},
            }
            if found["celsius"] > HOT:
                device["taints"] = [{"key": "example.com/hot", "effect": "NoExecute"}]
            yield device

    def prepare(self, claim):
        """Write one CDI file per claim. Called again, it writes the same file."""
        ids, edits = {}, []
        for result in claim.results:
            device, mode = result["device"], self.mode(claim, result)
            ids[device] = [f"{KIND}={claim.uid}-{device}"]
            environment = [f"ACCELERATOR={device}", f"ACCELERATOR_MODE={mode}"]
            edits.append({"name": f"{claim.uid}-{device}", "containerEdits": {"env": environment}})
        self.cdi_dir.mkdir(parents=True, exist_ok=True)
        draft = self.cdi_dir / f".{claim.uid}"
        draft.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": KIND, "devices": edits}))
        draft.rename(self.cdi_file(claim))
        self.report(claim)
        return ids

    def mode(self, claim, result):
        """Return the mode in the claim's parameters, else the class's, else the default."""
        modes = [given["mode"] for given in claim.parameters(self.name, result)] or ["exclusive"]
        if modes[-1] not in MODES:
            raise ValueError(f"mode {modes[-1]} is unknown; use one of {', '.join(MODES)}")
        return modes[-1]

    def report(self, claim):
        """Write the status of the devices into the claim, with server-side apply."""
        devices = [
            {
                **{field: result[field] for field in ("driver", "pool", "device")},
                "data": {"celsius": self.read()[result["device"]]["celsius"]},
            }
            for result in claim.results
        ]
        path = f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}/status"
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": claim.name, "uid": claim.uid},
            "status": {"devices": devices},
        }
        with Client.from_kubeconfig(self.kubeconfig) as client:
            client.request(
                "PATCH", path, body, content_type="application/apply-patch+yaml",
                params={"fieldManager": self.name, "force": "true"},
            )  # fmt: skip

    def unprepare(self, claim):
        self.cdi_file(claim).unlink(missing_ok=True)

    def cdi_file(self, claim):
        return self.cdi_dir / f"{self.name}_{claim.uid}.json"

    def check(self, running):
        """Read the hardware again: report the health of each device, and publish changed slices."""
        for name, found in self.read().items():
            hot = found["celsius"] > HOT
            running.set_health(name, "Unhealthy" if hot else "Healthy", f"{found['celsius']} °C" if hot else "")
        running.publish()


def main():
    parser = argparse.ArgumentParser(description="DRA driver for accelerators of an inventory file.")
    parser.add_argument("--node", required=True)
    parser.add_argument("--inventory", required=True)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--plugin-dir", default="/var/lib/kubelet/plugins")
    parser.add_argument("--registry-dir", default="/var/lib/kubelet/plugins_registry")
    parser.add_argument("--cdi-dir", default="/var/run/cdi")
    flags = parser.parse_args()
    driver = Accelerators(flags.inventory, flags.cdi_dir, flags.kubeconfig)
    where = {"node": flags.node, "plugin_dir": flags.plugin_dir, "registry_dir": flags.registry_dir}
    with driver.run(**where, kubeconfig=flags.kubeconfig) as running:
        while not threading.Event().wait(10):
            driver.check(running)


if __name__ == "__main__":
    main()
