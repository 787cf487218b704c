"""Why pods wait, what would change that, and what would fit: answers from one reading of a cluster, nothing written.

Reading order: `world` (a scheduler that watches nothing and writes nothing) → `findings` (what is said of a pod, as
data and in words) → `pods` → `changes` (what would have to change, tried out) → `claim_details` →
`__main__`. `simulation` puts pods that do not exist yet into such a world.
"""
