"""The scheduling cycle: profiles, finding a node, watch events, metrics; `plugins` lists the plugins in upstream's
order.
"""
