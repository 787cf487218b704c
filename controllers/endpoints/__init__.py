"""Where the pods of services are: EndpointSlices, and Endpoints, their older form.

    services         the pods of services; ports, and the time that an endpoint's change goes back to
    slices           what has to become of the slices of a service. Pure
    slicewrites      carries that out
    slicecontroller  endpointslice-controller
    subsets          the subsets of Endpoints. Pure
    legacy           endpoints-controller
    mirroring        endpointslice-mirroring-controller: slices of Endpoints that somebody writes by hand

Facts: upstream's k8s.io/endpointslice, pkg/controller/endpoint and pkg/controller/endpointslicemirroring.
"""
