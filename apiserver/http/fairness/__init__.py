"""API priority and fairness.

`flows` assigns requests to flows, `levels` limits the concurrent requests of a level and queues the others, and
`handler` is the link of the handler chain.

Facts: apiserver/pkg/util/flowcontrol (rule.go, apf_controller.go), apiserver/pkg/server/filters
(priority-and-fairness.go).
"""
