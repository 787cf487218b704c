"""A server's authentication and authorization: tokens, certificates and authorizers, wired together.

The checks of each request are in apiserver/http/handlers (authenticator) and apiserver/authorization. This module
provides their inputs: settings, stored keys, and files that are reloaded when they change.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.authentication.authenticator import ADMIN, Authenticator
from apiserver.authentication.tokens.service_account_keys import (
    KeyFileError,
    Keys,
    StoreKeys,
    generate_key,
    read_key_files,
)
from apiserver.authentication.tokens.service_account_tokens import ISSUER, AccountTokens
from apiserver.authentication.x509.client_certificates import ClientCertificates
from apiserver.authorization.authorizer import Authorizer
from apiserver.authorization.configuration import read_authorizers
from apiserver.controlplane.about import server_id
from apiserver.registry.definition.authority import Question
from apiserver.registry.verbs.server_writes import rewrite_own
from apiserver.runtime.clock import now, outside
from apiserver.runtime.offload import on_loop
from apiserver.runtime.reloading import ReloadedConfiguration, ReloadedFiles
from apiserver.state.contents import SHARED_KEYS
from apiserver.storage import StorageError

if TYPE_CHECKING:
    from apiserver.authentication.settings import AccountKeys
    from apiserver.authentication.tokens.kubelet_tokens import KubeletTokens
    from apiserver.authentication.tokens.token_reviewers import BootstrapTokens, WebhookTokens
    from apiserver.options.settings import Settings
    from apiserver.registry.store.store import Registry
    from apiserver.request.messages import Request, User
    from apiserver.runtime.metrics import Family
    from apiserver.storage import RevisionLog
    from apiserver.webhooks.client import Webhooks

__all__ = ["Access", "open_keys"]

log = logging.getLogger(__name__)

#: Names of the stored keys for service account tokens: the signing pair, and its predecessor.
_KEPT_PAIR, _KEPT_BEFORE = SHARED_KEYS
_OF_KEYS: Final = "StructuredAuthenticationConfigurationJWKSMetrics"


async def open_keys(settings: AccountKeys, store: RevisionLog) -> Keys:
    """Open the keys that sign service account tokens. Raise KeyFileError."""
    if settings.endpoint:
        return await _open_signer(settings)
    if settings.signing is not None:
        return read_key_files(settings.signing, settings.keys)

    async def load_shared_key() -> bytes:
        """Return the private signing key that all servers of the store share, in PEM."""
        key = await store.get_meta(_KEPT_PAIR)
        if key is None:
            with outside():
                made = await asyncio.to_thread(generate_key)
            key = await store.get_or_set_meta(_KEPT_PAIR, made)
        return key

    return StoreKeys(await store.get_or_set_meta(_KEPT_BEFORE, secrets.token_bytes(32)), load_shared_key)


async def _open_signer(settings: AccountKeys) -> Keys:
    """Connect to the external signer. Raise KeyFileError if it does not allow the configured lifetime of tokens."""
    from apiserver.authentication.tokens.external_signer import ExternalKeys

    signer = ExternalKeys(settings.endpoint)
    await signer.start()
    if settings.longest > signer.longest:
        await signer.close()
        raise KeyFileError(
            "service-account-max-token-expiration cannot be set longer than the token expiration supported by"
            f" service-account-signing-endpoint: {settings.longest}s > {signer.longest}s"
        )
    return signer


class Access:
    """The authenticator and the authorizer of a server, with their sources.

    `authenticator` determines the user of a request, `authorizer` the user's permissions. `certificates` maps client
    certificates to users; None if client certificates are not accepted. `accounts` are the service account tokens.
    """

    def __init__(
        self, settings: Settings, registry: Registry, webhooks: Webhooks, keys: Keys, kubelets: KubeletTokens
    ) -> None:
        """Build the authenticator and the authorizer.

        `registry` has its stores; `keys` sign service account tokens, `kubelets` those for kubelets. Raise
        CertificateError and KubeconfigError.
        """
        identity, access, others = settings.identity, settings.access, settings.others
        accounts = identity.accounts
        self._settings, self._registry, self._webhooks, self._keys = settings, registry, webhooks, keys
        uid = settings.features.enabled("AllowParsingUserUIDFromCertAuth")
        self.certificates = ClientCertificates(identity, with_uid=uid) if identity.certificates else None
        self.authorizer = Authorizer(
            access.authorizers, registry.stores, settings.features, webhooks, policies=access.policies
        )
        self.accounts = AccountTokens(
            registry.lookup, now, keys, accounts.issuers or (ISSUER,), accounts.audiences, self._label_secret
        )
        self.authenticator = Authenticator(
            settings.tokens,
            self.accounts,
            # As upstream: the mode AlwaysAllow disables anonymous requests by default.
            anonymous="AlwaysAllow" not in access.modes if identity.anonymous is None else identity.anonymous,
            proxy=identity.proxy,
            audiences=accounts.audiences or self.accounts.issuers,
            max_lifetime=accounts.longest or keys.longest,
            bootstrap=self._bootstrap_tokens(),
            configured=others.authenticators,
            webhook=self._webhook_tokens(),
            kubelets=kubelets,
        )

    def _bootstrap_tokens(self) -> BootstrapTokens | None:
        if not self._settings.others.bootstrap:
            return None
        from apiserver.authentication.tokens.token_reviewers import BootstrapTokens

        return BootstrapTokens(self._registry.lookup)

    def _webhook_tokens(self) -> WebhookTokens | None:
        """Build the token webhook. Raise KubeconfigError."""
        webhook = self._settings.others.webhook
        if webhook is None:
            return None
        from apiserver.api.types.authentication import TokenReview
        from apiserver.authentication.tokens.token_reviewers import WebhookTokens
        from apiserver.webhooks.reviewers import Reviewer
        from kubedra.kubeconfig.reader import read_kubeconfig

        where = read_kubeconfig(webhook.kubeconfig)
        reviewer = Reviewer(self._webhooks, where, "authentication.k8s.io", TokenReview)
        return WebhookTokens(reviewer, webhook.version, webhook.ttl)

    async def follow_keys(self) -> None:
        """Keep the keys of service accounts up to date until cancelled."""
        await self._keys.follow()

    async def close(self) -> None:
        await self._keys.close()

    def reloaded_files(self, host: str) -> Iterator[ReloadedFiles]:
        """Yield the files to reload when they change.

        They are the configurations, the authorities of client certificates, and the policies and webhooks from files.
        """
        settings = self._settings
        yield from self.certificates.files if self.certificates is not None else ()
        if settings.access.file is not None:

            def replace(text: bytes) -> None:
                self.authorizer.replace(read_authorizers(text, settings.features, settings.access.modes))

            yield ReloadedConfiguration("authorization", settings.access.file, server_id(host), replace)
        first = settings.others.authenticators
        if settings.others.file is not None and first is not None:
            from apiserver.authentication.oidc.configuration import read_again

            def reload(text: bytes) -> None:
                self.authenticator.configure(read_again(text, first, settings.features, self.accounts.issuers))

            yield ReloadedConfiguration("authentication", settings.others.file, server_id(host), reload)
        for manifests in settings.admission.manifests.values():
            from apiserver.controlplane.static_manifests import ReloadedManifests

            yield ReloadedManifests(manifests, server_id(host))

    def families(self, host: str) -> list[Family]:
        """Return the metric families of authentication and authorization."""
        tokens = (*self._keys.families(), *self.accounts.of_secrets.families())
        found = [*self.authorizer.families(), self.authenticator.remaining, *tokens]
        if self._settings.others.any and self._settings.features.enabled(_OF_KEYS):
            from apiserver.authentication.oidc.metrics import key_families

            found = [*found, *key_families(self.authenticator.issuers, server_id(host))]
        return found

    def administrator(self, user_of: Callable[[Request], Awaitable[User]]) -> Callable[[Request], Awaitable[str]]:
        """Return a function that gives the reason why a request's user is no administrator, "" for an administrator."""

        async def check(request: Request) -> str:
            try:
                user = await user_of(request)
                allowed = (await self.authorizer.decide(user, Question("*", "*", "*"))).allowed
            except Exception as error:  # noqa: BLE001 - any error means that the user is no administrator
                return str(error)
            return "" if allowed else f'User "{user.name}" may not use /-/'

        return check

    @on_loop
    async def _label_secret(self, namespace: str, name: str, label: str, value: str) -> None:
        """Set a label of a secret. A failure is logged."""

        def set_label(stored: Any) -> Any:
            meta = stored["metadata"]
            return {**stored, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), label: value}}}

        try:
            await rewrite_own(self._registry, ADMIN, "", "secrets", namespace, name, set_label)
        except (StatusError, StorageError) as error:
            log.warning("could not record the use of the token in secret %s/%s: %s", namespace, name, error)
