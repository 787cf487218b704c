"""Admission webhooks: MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

    hooks.py      the configured webhooks, and their matching to requests
    reviews.py    the request to a webhook, and the validation of its response
    calls.py      one call, with its metrics
    mutating.py, validating.py    the plugins

See docs/adr/0024-webhooks.md. Facts: apiserver, pkg/admission/plugin/webhook.
"""
