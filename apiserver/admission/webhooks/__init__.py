"""Admission webhooks: MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

    hooks.py      which webhooks there are, and which of them a request concerns
    reviews.py    what one is asked, and what its answer has to be
    calls.py      one call: asked, understood, counted
    mutating.py, validating.py    the plugins

See docs/adr/0024-webhooks.md. Facts: apiserver, pkg/admission/plugin/webhook.
"""
