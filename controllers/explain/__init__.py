"""Explain why pods wait and what would help, and simulate pods before they exist. Both only read the cluster.

Reading order: `world` (a cluster snapshot with a scheduler that neither watches nor writes) → `findings` (results, as
data and as report) → `pods` → `changes` (search for remedies, each tried) → `claim_details` → `__main__`.
`simulation` adds hypothetical pods to such a world.
"""
