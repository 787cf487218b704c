"""API priority and fairness: which flow a request belongs to (`flows`), how many of a level are answered at once and
how the others wait (`levels`), and the link of the handler chain that asks both (`handler`).

Facts: apiserver/pkg/util/flowcontrol (rule.go, apf_controller.go), apiserver/pkg/server/filters
(priority-and-fairness.go).
"""
