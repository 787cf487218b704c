"""The audit log: who asked for what, how much of it is written down as a policy says. Facts: audit.k8s.io/v1.

policy.py    the policy's file, and what it says of a request
events.py    the event of a request, stage by stage
handler.py   the handlers of the chain that make them
"""
