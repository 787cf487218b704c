"""The audit log: requests and responses, in the detail that a policy sets. Facts: audit.k8s.io/v1.

policy.py    the policy's file and its rules
events.py    the event of a request, stage by stage
handler.py   the handlers of the chain that write events
"""
