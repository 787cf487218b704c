"""Controllers of pods made from templates, and the autoscaler and disruption budgets about them."""
