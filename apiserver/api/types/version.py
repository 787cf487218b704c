"""The answer of /version."""

from __future__ import annotations

from apiserver.api.schema import STRING, Struct, field

Info = Struct("io.k8s.apimachinery.pkg.version.Info", lambda: (
    field("major", 1, STRING, omit=False, required=True,
        doc="Major version of the Kubernetes release that is emulated."),
    field("minor", 2, STRING, omit=False, required=True,
        doc="Minor version of the Kubernetes release that is emulated."),
    field("emulationMajor", 3, STRING),
    field("emulationMinor", 4, STRING),
    field("minCompatibilityMajor", 5, STRING),
    field("minCompatibilityMinor", 6, STRING),
    field("gitVersion", 7, STRING, omit=False, required=True),
    field("gitCommit", 8, STRING, omit=False, required=True),
    field("gitTreeState", 9, STRING, omit=False, required=True),
    field("buildDate", 10, STRING, omit=False, required=True),
    field("goVersion", 11, STRING, omit=False, required=True),
    field("compiler", 12, STRING, omit=False, required=True),
    field("platform", 13, STRING, omit=False, required=True),
))
