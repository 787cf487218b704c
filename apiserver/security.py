"""Who may come, and what each may do: the tokens, certificates and authorizers of a server, wired together.

What is asked on every request is in apiserver/http/handlers (authenticator) and apiserver/authorization; here is where
it comes from: the settings, keys that the store keeps, files that are read again when they change.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.authentication.authenticator import ADMIN, Authenticator
from apiserver.authentication.tokens.service_account_keys import KeyFileError, Keys, StoreKeys, make_key, read_key_files
from apiserver.authentication.tokens.service_account_tokens import ISSUER, AccountTokens
from apiserver.authentication.x509.client_certificates import ClientCertificates
from apiserver.authorization.authorizer import Authorizer
from apiserver.authorization.configuration import read_authorizers
from apiserver.controlplane.about import server_id
from apiserver.registry.verbs.server_writes import rewrite_own
from apiserver.runtime.clock import now, outside
from apiserver.runtime.external_facts import settle
from apiserver.runtime.reloading import Followed, Reloaded
from apiserver.storage import StorageError

if TYPE_CHECKING:
    from apiserver.authentication.tokens.external_signer import ExternalKeys
    from apiserver.options.settings import Settings
    from apiserver.registry.store.store import Registry
    from apiserver.request.messages import Request, User
    from apiserver.runtime.metrics import Family
    from apiserver.storage import RevisionLog
    from apiserver.webhooks.client import Webhooks

__all__ = ["Access"]

log = logging.getLogger(__name__)

#: Under these names the database keeps what signs the tokens of service accounts, and what signed them before.
_KEPT_PAIR: Final = "service-account-key-pair"
_KEPT_BEFORE: Final = "service-account-key"
_OF_KEYS: Final = "StructuredAuthenticationConfigurationJWKSMetrics"


class Access:
    """`authenticator` says who sends a request, `authorizer` what that user may do. `certificates` says whom those of
    clients name; None where none count. `accounts`, the tokens of service accounts, is there once `use` was called, and
    knows its keys after `start`.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises CertificateError."""
        identity, access = settings.identity, settings.access
        # As upstream: where everything is allowed to everybody, nobody may come without a token.
        anonymous = "AlwaysAllow" not in access.modes if identity.anonymous is None else identity.anonymous
        self._settings = settings
        self.authenticator = Authenticator(settings.tokens, anonymous=anonymous, proxy=identity.proxy)
        uid = settings.features.enabled("AllowParsingUserUIDFromCertAuth")
        self.certificates = ClientCertificates(identity, with_uid=uid) if identity.certificates else None
        self.authorizer = Authorizer(access.authorizers, access.policies, changes=access.file is not None)
        self.accounts: AccountTokens
        self._signer: ExternalKeys | None = None

    def use(self, registry: Registry, webhooks: Webhooks) -> None:
        """The objects that rights and accounts are read from, and whom to ask besides. Raises KubeconfigError."""
        self._registry, self._webhooks = registry, webhooks
        accounts = self._settings.identity.accounts
        self.authorizer.use(registry.stores, self._settings.features, webhooks)
        self.accounts = AccountTokens(registry.lookup, now, accounts.issuers or (ISSUER,))
        self.accounts.note_use, self.accounts.audiences = self._label_secret, accounts.audiences
        self.authenticator.accounts, self.authenticator.longest = self.accounts, accounts.longest
        self.authenticator.audiences = accounts.audiences or self.accounts.issuers
        if accounts.endpoint:
            from apiserver.authentication.tokens.external_signer import ExternalKeys

            self._signer = ExternalKeys(accounts.endpoint, self.accounts.forget)
        self._know_others()
        registry.authority, registry.identity = self.authorizer, self.authenticator

    async def start(self, store: RevisionLog) -> None:
        """Finds the keys of service accounts' tokens. Raises KeyFileError."""
        if self._signer is not None:
            self._limit(await self._signer.start())
        self.accounts.keys = self._signer or await self._account_keys(store)

    def followers(self) -> list[ExternalKeys]:
        """What is to be followed as long as the server runs."""
        return [self._signer] if self._signer is not None else []

    async def close(self) -> None:
        if self._signer is not None:
            await self._signer.close()

    def followed(self, host: str) -> Iterator[Followed]:
        """The files to read again when they change: configurations, authorities of clients' certificates, and policies
        and webhooks that are read from files.
        """
        settings = self._settings
        yield from self.certificates.files if self.certificates is not None else ()
        if settings.access.file is not None:

            def replace(text: bytes) -> None:
                self.authorizer.replace(read_authorizers(text, settings.features, settings.access.modes))

            yield Reloaded("authorization", settings.access.file, server_id(host), replace)
        first = settings.others.authenticators
        if settings.others.file is not None and first is not None:
            from apiserver.authentication.oidc.configuration import read_again

            def take(text: bytes) -> None:
                self.authenticator.take(read_again(text, first, settings.features, self.accounts.issuers))

            yield Reloaded("authentication", settings.others.file, server_id(host), take)
        for manifests in settings.admission.manifests.values():
            from apiserver.controlplane.static_manifests import FollowedManifests

            yield FollowedManifests(manifests, server_id(host))

    def families(self, host: str) -> list[Family]:
        """What is counted of who comes, and of what they may do."""
        found = [*self.authorizer.families(), self.authenticator.remaining]
        if self._signer is not None:
            found += self._signer.families()
        if self._settings.others.any and self._settings.features.enabled(_OF_KEYS):
            from apiserver.authentication.oidc.metrics import key_families

            found = [*found, *key_families(self.authenticator.issuers, server_id(host))]
        return found

    def administrator(self, user_of: Callable[[Request], User]) -> Callable[[Request], Awaitable[str]]:
        """What says of a request "" where its sender, or whoever that impersonates, may do everything, else why not."""

        async def judged(request: Request) -> str:
            def judge() -> str:
                user = user_of(request)
                return "" if self.authorizer.allows_everything(user) else f'User "{user.name}" may not use /-/'

            try:
                return await settle(judge)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is no administrator
                return str(error)

        return judged

    def _know_others(self) -> None:
        """Whose tokens are known to others. Raises KubeconfigError."""
        others, authenticator = self._settings.others, self.authenticator
        if others.authenticators is not None:
            authenticator.take(others.authenticators)
        if others.webhook is None and not others.bootstrap:
            return
        from apiserver.authentication.tokens.token_reviewers import BootstrapTokens, WebhookTokens

        if others.bootstrap:
            authenticator.bootstrap = BootstrapTokens(self._registry.lookup)
        if others.webhook is not None:
            from apiserver.api.types.authentication import TokenReview
            from apiserver.webhooks.reviewers import Reviewer
            from kubedra.kubeconfig.reader import read_kubeconfig

            where = read_kubeconfig(others.webhook.kubeconfig)
            reviewer = Reviewer(self._webhooks, where, "authentication.k8s.io", TokenReview)
            authenticator.webhook = WebhookTokens(reviewer, others.webhook.version, others.webhook.lasts)

    def _limit(self, longest: int) -> None:
        """Tokens are good for no longer than whoever signs them wants. Raises KeyFileError."""
        if self.authenticator.longest > longest:
            raise KeyFileError(
                "service-account-max-token-expiration cannot be set longer than the token expiration supported by"
                f" service-account-signing-endpoint: {self.authenticator.longest}s > {longest}s"
            )
        self.authenticator.longest = self.authenticator.longest or longest

    async def _account_keys(self, store: RevisionLog) -> Keys:
        accounts = self._settings.identity.accounts
        if accounts.signing is not None:
            return read_key_files(accounts.signing, accounts.keys)

        async def kept() -> bytes:
            """The private key that all servers of the store sign with, in PEM."""
            key = await store.recall(_KEPT_PAIR)
            if key is None:
                with outside():
                    made = await asyncio.to_thread(make_key)
                key = await store.remember(_KEPT_PAIR, made)
            return key

        return StoreKeys(await store.remember(_KEPT_BEFORE, secrets.token_bytes(32)), kept)

    async def _label_secret(self, namespace: str, name: str, label: str, value: str) -> None:
        """Sets a label of a secret. Whoever waits for it goes on even where that is not possible."""

        def labelled(stored: Any) -> Any:
            meta = stored["metadata"]
            return {**stored, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), label: value}}}

        try:
            await rewrite_own(self._registry, ADMIN, "", "secrets", namespace, name, labelled)
        except (StatusError, StorageError) as error:
            log.warning("the use of the token in secret %s/%s is not noted: %s", namespace, name, error)
