"""A DRA driver as a process on grpcio and protobuf, without any code of kubedra.

    python grpcio_driver.py --driver gpu.example.com --registry-dir DIR --plugin-dir DIR --log FILE --script FILE

protobuf's own library builds the messages from the published facts. Every call is a line of JSON in the log. The
script is a JSON object that is read at each call: `error` (of each claim), `code` (of the call), `delay` (seconds),
`block` (the call waits while it is set), `health` (of device-0).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

T = descriptor_pb2.FieldDescriptorProto
_TYPES = {"string": T.TYPE_STRING, "bool": T.TYPE_BOOL, "int64": T.TYPE_INT64, "int32": T.TYPE_INT32}
DRA = {
    "Claim": "namespace:1 uid:2 name:3",
    "Device": "*request_names:1 pool_name:2 device_name:3 *cdi_device_ids:4 share_id:5",
    "PrepareRequest": "*claims:1=Claim",
    "PrepareResult": "*devices:1=Device error:2",
    "PrepareEntry": "key:1 value:2=PrepareResult",
    "PrepareResponse": "*claims:1=PrepareEntry",
    "UnprepareResult": "error:1",
    "UnprepareEntry": "key:1 value:2=UnprepareResult",
    "UnprepareResponse": "*claims:1=UnprepareEntry",
    "Empty": "",
    "PluginInfo": "type:1 name:2 endpoint:3 *supported_versions:4",
    "RegistrationStatus": "plugin_registered:1:bool error:2",
    "DeviceIdentifier": "pool_name:1 device_name:2",
    "DeviceHealth": "device:1=DeviceIdentifier health:2:int32 last_updated_time:3:int64 timeout:4:int64 message:5",
    "HealthReport": "*devices:1=DeviceHealth",
    "CDIDevice": "name:1",
    "ClaimResource": "*cdi_devices:1=CDIDevice driver_name:2 pool_name:3 device_name:4 share_id:5",
    "DynamicResource": "claim_name:2 claim_namespace:3 *claim_resources:4=ClaimResource",
    "ContainerResources": "name:1 *dynamic_resources:5=DynamicResource",
    "PodResources": "name:1 namespace:2 *containers:3=ContainerResources",
    "ListPodResources": "*pods:1=PodResources",
    "GetPodResources": "pod:1=PodResources",
    "PodName": "name:1 namespace:2",
}


def messages() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="dra.proto", package="test", syntax="proto3")
    for name, fields in DRA.items():
        made = file.message_type.add(name=name)
        for item in fields.split():
            repeated, item = item.startswith("*"), item.lstrip("*")
            item, _, message = item.partition("=")
            field, number, kind = (*item.split(":"), "string")[:3]
            one = made.field.add(
                name=field, number=int(number), label=T.LABEL_REPEATED if repeated else T.LABEL_OPTIONAL
            )
            if message:
                one.type, one.type_name = T.TYPE_MESSAGE, f".test.{message}"
            else:
                one.type = _TYPES[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return type(
        "Messages", (), {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"test.{n}")) for n in DRA}
    )


M = messages()


class Driver:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.lock = given, threading.Lock()
        self.endpoint = Path(given.plugin_dir) / f"dra{given.instance}.sock"
        self.versions = given.versions.split(",")

    def log(self, **call: Any) -> None:
        with self.lock, Path(self.given.log).open("a") as file:
            file.write(json.dumps({"instance": self.given.instance, **call}) + "\n")

    def script(self) -> Any:
        try:
            return json.loads(Path(self.given.script).read_text() or "{}")
        except (FileNotFoundError, ValueError):
            return {}

    def run_script(self, context: grpc.ServicerContext) -> Any:
        script = self.script()
        time.sleep(script.get("delay", 0))
        while self.script().get("block"):
            time.sleep(0.01)
        if "code" in script:
            context.abort(getattr(grpc.StatusCode, script["code"]), script.get("message", "scripted"))
        return script

    def prepare(self, version: str) -> Any:
        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            self.log(method="prepare", version=version, claims=[c.name for c in request.claims])
            script, response = self.run_script(context), M.PrepareResponse()
            for claim in request.claims:
                result = M.PrepareResult(error=script.get("error", ""))
                if not result.error:
                    cdi = f"{self.given.driver}/test=claim-{claim.uid}"
                    result.devices.append(
                        M.Device(pool_name=self.given.node, device_name="device-0", cdi_device_ids=[cdi])
                    )
                response.claims.append(M.PrepareEntry(key=claim.uid, value=result))
            return response

        return grpc.unary_unary_rpc_method_handler(
            handle, M.PrepareRequest.FromString, M.PrepareResponse.SerializeToString
        )

    def unprepare(self, version: str) -> Any:
        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            self.log(method="unprepare", version=version, claims=[c.name for c in request.claims])
            script, response = self.run_script(context), M.UnprepareResponse()
            for claim in request.claims:
                entry = M.UnprepareEntry(key=claim.uid, value=M.UnprepareResult(error=script.get("error", "")))
                response.claims.append(entry)
            return response

        return grpc.unary_unary_rpc_method_handler(
            handle, M.PrepareRequest.FromString, M.UnprepareResponse.SerializeToString
        )

    def watch(self, request: Any, context: grpc.ServicerContext) -> Any:
        while context.is_active():
            script = self.script()
            if "health" in script:
                device = M.DeviceIdentifier(pool_name=self.given.node, device_name="device-0")
                state = ("UNKNOWN", "HEALTHY", "UNHEALTHY").index(script["health"])
                yield M.HealthReport(
                    devices=[M.DeviceHealth(device=device, health=state, message=script.get("text", ""))]
                )
            time.sleep(0.1)

    def info(self, request: Any, context: grpc.ServicerContext) -> Any:
        versions = [f"{version}.DRAPlugin" for version in self.versions]
        return M.PluginInfo(
            type="DRAPlugin", name=self.given.driver, endpoint=str(self.endpoint), supported_versions=versions
        )

    def notify(self, status: Any, context: grpc.ServicerContext) -> Any:
        self.log(method="registered" if status.plugin_registered else "refused", error=status.error)
        return M.Empty()

    def serve(self) -> None:
        # Block the signal until sigwait, so that it cannot come too early.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
        dra = server(self.endpoint)
        for version in self.versions:
            methods = {"NodePrepareResources": self.prepare(version), "NodeUnprepareResources": self.unprepare(version)}
            add(dra, f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin", methods)
        watch = grpc.unary_stream_rpc_method_handler(self.watch, M.Empty.FromString, M.HealthReport.SerializeToString)
        add(dra, "v1alpha1.DRAResourceHealth", {"NodeWatchResources": watch})
        dra.start()
        socket = Path(self.given.registry_dir) / f"{self.given.driver}{self.given.instance}-reg.sock"
        registration = server(socket)
        info = grpc.unary_unary_rpc_method_handler(self.info, M.Empty.FromString, M.PluginInfo.SerializeToString)
        notify = grpc.unary_unary_rpc_method_handler(
            self.notify, M.RegistrationStatus.FromString, M.Empty.SerializeToString
        )
        add(registration, "pluginregistration.Registration", {"GetInfo": info, "NotifyRegistrationStatus": notify})
        registration.start()
        self.log(method="started")
        signal.sigwait((signal.SIGTERM,))
        for running, path in ((registration, socket), (dra, self.endpoint)):
            running.stop(0).wait(1)
            path.unlink(missing_ok=True)
        # A normal exit would wait for grpcio's threads, and one may be blocked in a call.
        os._exit(0)


def server(path: Path) -> grpc.Server:
    path.unlink(missing_ok=True)
    made = grpc.server(ThreadPoolExecutor(8))
    made.add_insecure_port(f"unix:{path}")
    return made


def add(to: grpc.Server, service: str, methods: dict[str, Any]) -> None:
    to.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag in ("driver", "registry-dir", "plugin-dir", "log", "script"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("--node", default="n1")
    parser.add_argument("--instance", default="")
    parser.add_argument("--versions", default="v1,v1beta1")
    Driver(parser.parse_args()).serve()


if __name__ == "__main__":
    main()
