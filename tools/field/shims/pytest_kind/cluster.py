"""A cluster that is already running."""

import os
import shutil
import subprocess
from pathlib import Path


class KindCluster:
    """The cluster of `$KUBECONFIG`."""

    def __init__(self, name: str, image: str | None = None) -> None:
        self.name = name
        self.kubeconfig_path = Path(os.environ["KUBECONFIG"])
        self.kubectl_path = Path(shutil.which("kubectl") or "kubectl")

    def create(self) -> None:
        """Do nothing: it runs."""

    def delete(self) -> None:
        """Do nothing: the tool stops it."""

    def kubectl(self, *arguments: str, **more: object) -> str:
        """Return the output of kubectl. Raise CalledProcessError."""
        return subprocess.run(["kubectl", *arguments], check=True, capture_output=True, text=True).stdout
