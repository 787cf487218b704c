"""The checks of the level baseline: known privilege escalations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.admission.podsecurity.subjects import Finding, PodToCheck, count, named, quoted, setters
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.objects import Json

__all__ = [
    "app_armor",
    "capabilities",
    "host_namespaces",
    "host_path_volumes",
    "host_ports",
    "host_processes",
    "hosts_of_probes",
    "privileged",
    "proc_mount",
    "seccomp",
    "seccomp_annotations",
    "selinux_options",
    "sysctls",
]

_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/"


def _find_forbidden_profiles(pod: PodToCheck, field: str) -> tuple[list[str], set[str]]:
    """Return the setters of forbidden profiles, and the types of those profiles."""
    bad: set[str] = set()

    def wrong(security: Json) -> bool:
        profile = security.get(field)
        if profile is None or profile.get("type", "") in ("RuntimeDefault", "Localhost"):
            return False
        bad.add(profile.get("type", ""))
        return True

    return setters(pod, wrong), bad


def app_armor(pod: PodToCheck) -> Finding | None:
    found, bad = _find_forbidden_profiles(pod, "appArmorProfile")
    annotations = sorted(
        f"{key}={go_quote(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if annotations:
        found.append(count("annotation", len(annotations)))
    if not found:
        return None
    values = [*sorted(bad), *annotations]
    return Finding(
        count("forbidden AppArmor profile", len(values)),
        f"{' and '.join(found)} must not set AppArmor profile type to {quoted(values)}",
    )


def capabilities(pod: PodToCheck) -> Finding | None:
    bad: set[str] = set()
    names = []
    for name, _, security in pod.containers():
        more = set((security.get("capabilities") or {}).get("add") or ()) - _CAPABILITIES
        if more:
            bad |= more
            names.append(name)
    if not names:
        return None
    return Finding(
        "non-default capabilities",
        f"{named('container', names)} must not include {quoted(sorted(bad))} in securityContext.capabilities.add",
    )


def host_namespaces(pod: PodToCheck) -> Finding | None:
    found = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return Finding("host namespaces", ", ".join(found)) if found else None


def host_path_volumes(pod: PodToCheck) -> Finding | None:
    found = [volume["name"] for volume in pod.spec.get("volumes") or () if volume.get("hostPath") is not None]
    return Finding("hostPath volumes", named("volume", found)) if found else None


def host_ports(pod: PodToCheck) -> Finding | None:
    bad: set[str] = set()
    names = []
    for name, container, _ in pod.containers():
        ports = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        if ports:
            bad |= ports
            names.append(name)
    if not names:
        return None
    use = "uses" if len(names) == 1 else "use"
    text = f"{named('container', names)} {use} {count('hostPort', len(bad))} {', '.join(sorted(bad))}"
    return Finding("hostPort", text)


def hosts_of_probes(pod: PodToCheck) -> Finding | None:
    """Check the hosts of probes and hooks, since 1.34: they may not send the kubelet's request elsewhere."""
    bad: set[str] = set()
    names = set()
    for name, container, _ in pod.containers():
        hooks = container.get("lifecycle") or {}
        asked = [container.get(f"{probe}Probe") for probe in ("liveness", "readiness", "startup")]
        for handler in (*asked, hooks.get("postStart"), hooks.get("preStop")):
            hosts = {host for way in ("httpGet", "tcpSocket") if (host := ((handler or {}).get(way) or {}).get("host"))}
            if hosts:
                bad |= hosts
                names.add(name)
    if not names:
        return None
    use = "uses" if len(names) == 1 else "use"
    what = count("probe or lifecycle host", len(bad))
    text = f"{named('container', sorted(names))} {use} {what} {quoted(sorted(bad))}"
    return Finding("probe or lifecycle host", text)


def privileged(pod: PodToCheck) -> Finding | None:
    names = [name for name, _, security in pod.containers() if security.get("privileged")]
    if not names:
        return None
    return Finding("privileged", f"{named('container', names)} must not set securityContext.privileged=true")


def proc_mount(pod: PodToCheck) -> Finding | None:
    kinds = {name: security.get("procMount") for name, _, security in pod.containers()}
    wrong = {name: kind for name, kind in kinds.items() if kind not in (None, "Default")}
    if not wrong:
        return None
    text = f"must not set securityContext.procMount to {quoted(sorted(set(wrong.values())))}"
    return Finding("procMount", f"{named('container', list(wrong))} {text}")


def selinux_options(allowed: frozenset[str]) -> Callable[[PodToCheck], Finding | None]:
    """Build the check of SELinux options for the allowed types."""

    def check(pod: PodToCheck) -> Finding | None:
        types: set[str] = set()
        fields: set[str] = set()

        def wrong(security: Json) -> bool:
            given = security.get("seLinuxOptions") or {}
            kind = given.get("type") or ""
            if kind and kind not in allowed:
                types.add(kind)
            fields.update(field for field in ("user", "role") if given.get(field))
            return bool(kind and kind not in allowed) or bool(given.get("user") or given.get("role"))

        found = setters(pod, wrong)
        if not found:
            return None
        data = [named("type", sorted(types))] if types else []
        data += [f"{field} may not be set" for field in ("user", "role") if field in fields]
        text = f"{' and '.join(found)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Finding("seLinuxOptions", text)

    return check


def seccomp_annotations(pod: PodToCheck) -> Finding | None:
    """Check the seccomp annotations of versions up to 1.18, which had no fields for them."""
    keys = [f"{_SECCOMP}pod", *(f"container.{_SECCOMP}{name}" for name, _, _ in pod.containers())]
    found = sorted(
        {
            f"{key}={go_quote(value)}"
            for key in keys
            if (value := pod.annotations.get(key)) is not None
            and value not in ("runtime/default", "docker/default")
            and not value.startswith("localhost/")
        }
    )
    text = f"forbidden {count('annotation', len(found))} {', '.join(found)}"
    return Finding("seccompProfile", text) if found else None


def seccomp(pod: PodToCheck) -> Finding | None:
    found, bad = _find_forbidden_profiles(pod, "seccompProfile")
    if not found:
        return None
    text = f"{' and '.join(found)} must not set securityContext.seccompProfile.type to {quoted(sorted(bad))}"
    return Finding("seccompProfile", text)


def sysctls(allowed: frozenset[str]) -> Callable[[PodToCheck], Finding | None]:
    """Build the check of sysctls for the allowed names."""

    def check(pod: PodToCheck) -> Finding | None:
        found = [each["name"] for each in pod.security.get("sysctls") or () if each["name"] not in allowed]
        return Finding("forbidden sysctls", ", ".join(found)) if found else None

    return check


def host_processes(pod: PodToCheck) -> Finding | None:
    found = setters(pod, lambda security: bool((security.get("windowsOptions") or {}).get("hostProcess")))
    if not found:
        return None
    return Finding("hostProcess", f"{' and '.join(found)} must not set securityContext.windowsOptions.hostProcess=true")
