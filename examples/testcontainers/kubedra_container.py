"""A control plane in a container, for testcontainers."""

from pathlib import Path

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HealthcheckWaitStrategy

PORT = 6443


class KubedraContainer(DockerContainer):
    """Waits for the health check of the image. `kubeconfig()` then has the address on this machine."""

    def __init__(self, image="ghcr.io/kubedra/kubedra:v0.1.0"):
        super().__init__(image)
        self.with_exposed_ports(PORT).waiting_for(HealthcheckWaitStrategy())

    def kubeconfig(self):
        """Return the text of a kubeconfig."""
        inside = self.exec(["cat", "/data/credentials/kubeconfig"]).output.decode()
        return inside.replace(f"127.0.0.1:{PORT}", f"{self.host()}:{self.get_exposed_port(PORT)}")

    def host(self):
        # The certificate is for localhost.
        host = self.get_container_host_ip()
        return "127.0.0.1" if host == "localhost" else host

    def write_kubeconfig(self, path):
        Path(path).write_text(self.kubeconfig())
        return path
