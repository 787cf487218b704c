"""The answer of /version."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, Struct, field

Info = Struct("io.k8s.apimachinery.pkg.version.Info", lambda: (
    field("major", 1, STRING, omit=False, required=True,
        doc="Major version of the Kubernetes release that is emulated."),
    field("minor", 2, STRING, omit=False, required=True,
        doc="Minor version of the Kubernetes release that is emulated."),
    field("emulationMajor", 3, STRING, doc="Major version of the release whose behaviour the server emulates."),
    field("emulationMinor", 4, STRING, doc="Minor version of the release whose behaviour the server emulates."),
    field("minCompatibilityMajor", 5, STRING,
        doc="Major version of the oldest release whose components work with the server."),
    field("minCompatibilityMinor", 6, STRING,
        doc="Minor version of the oldest release whose components work with the server."),
    field("gitVersion", 7, STRING, omit=False, required=True, doc="Full version, such as v1.36.0."),
    field("gitCommit", 8, STRING, omit=False, required=True, doc="Commit that the server was built from."),
    field("gitTreeState", 9, STRING, omit=False, required=True,
        doc="clean, or dirty when the sources had changes that are not in the commit."),
    field("buildDate", 10, STRING, omit=False, required=True, doc="When the server was built, in RFC 3339."),
    field("goVersion", 11, STRING, omit=False, required=True,
        doc="Version of the Go language that the server was built with."),
    field("compiler", 12, STRING, omit=False, required=True, doc="Compiler that the server was built with."),
    field("platform", 13, STRING, omit=False, required=True,
        doc="Operating system and processor architecture, such as linux/amd64."),
), doc="Info is the release of a server.")
