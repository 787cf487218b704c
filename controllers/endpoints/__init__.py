"""The endpoints of services: EndpointSlices, and Endpoints, their older form.

    services         the pods and ports of services, and the trigger time of a change
    slices           plans the slices of a service. Pure
    slicewrites      writes planned slices
    slicecontroller  endpointslice-controller
    subsets          the subsets of Endpoints. Pure
    legacy           endpoints-controller
    mirroring        endpointslice-mirroring-controller: slices of manually written Endpoints

Facts: upstream's k8s.io/endpointslice, pkg/controller/endpoint and pkg/controller/endpointslicemirroring.
"""
