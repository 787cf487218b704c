"""The authorizers of a server, called in order.

The first authorizer that allows or denies decides. The reasons of the earlier ones become part of a refusal.
Members of system:masters are always allowed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from apiserver.api.objects import Json
from apiserver.authorization.configuration import AuthorizerConfig
from apiserver.authorization.webhook import DecisionMetrics, WebhookAuthorizer
from apiserver.registry.definition.authority import Decision, Failure, Opinion, Question, Rules
from apiserver.runtime.offload import wait_on_loop

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.authorization.abac import Policies
    from apiserver.authorization.roles import RoleIndex
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import User
    from apiserver.runtime.metrics import Family
    from apiserver.webhooks.client import Webhooks

__all__ = ["Authorizer"]


MASTERS: Final = "system:masters"
_ALL: Final[list[Json]] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


class _Local(Protocol):
    """An authorizer in this process."""

    def opinion(self, user: User, question: Question) -> Opinion: ...

    def path_opinion(self, user: User, verb: str, path: str) -> Opinion: ...


_Member = _Local | WebhookAuthorizer
#: Returns an authorizer's opinion, or an awaitable if it has to wait.
_Ask = Callable[[_Member], Opinion | Awaitable[Opinion]]


class _Always:
    """Authorizer of the modes AlwaysAllow and AlwaysDeny."""

    def __init__(self, *, allow: bool) -> None:
        self._answer: Opinion = (True, "") if allow else (None, "Everything is forbidden.")

    def opinion(self, user: User, question: Question) -> Opinion:
        return self._answer

    def path_opinion(self, user: User, verb: str, path: str) -> Opinion:
        return self._answer


class _Roles:
    """Authorizer of the mode RBAC."""

    def __init__(self, index: RoleIndex) -> None:
        self._index = index

    def opinion(self, user: User, question: Question) -> Opinion:
        rights = self._index.rights(user, question.namespace)
        if rights.find(question) is not None:
            return True, ""
        return None, _format_missing_roles(rights.missing) if rights.missing else ""

    def path_opinion(self, user: User, verb: str, path: str) -> Opinion:
        rights = self._index.rights(user, "")
        if rights.find_path(verb, path) is not None:
            return True, ""
        return None, _format_missing_roles(rights.missing) if rights.missing else ""

    def reason(self, user: User, question: Question) -> str:
        grant = self._index.rights(user, question.namespace).find(question)
        return "" if grant is None else grant.reason(user)

    def path_reason(self, user: User, verb: str, path: str) -> str:
        grant = self._index.rights(user, "").find_path(verb, path)
        return "" if grant is None else grant.reason(user)


def _format_missing_roles(grants: Sequence[Any]) -> str:
    """Return the reason of a refusal that names missing bound roles."""
    texts = list(
        dict.fromkeys(
            f'{grant.role_kind.lower()}.rbac.authorization.k8s.io "{grant.role}" not found' for grant in grants
        )
    )
    return f"RBAC: {texts[0]}" if len(texts) == 1 else f"RBAC: [{', '.join(texts)}]"


def _opinion(user: User, question: Question, member: _Member) -> Opinion | Awaitable[Opinion]:
    """Return an authorizer's opinion, with the reason of a role that allows."""
    if not isinstance(member, _Roles):
        return member.opinion(user, question)
    verdict, reason = member.opinion(user, question)
    return verdict, member.reason(user, question) if verdict else reason


def _path_opinion(user: User, verb: str, path: str, member: _Member) -> Opinion | Awaitable[Opinion]:
    if not isinstance(member, _Roles):
        return member.path_opinion(user, verb, path)
    verdict, reason = member.path_opinion(user, verb, path)
    return verdict, member.path_reason(user, verb, path) if verdict else reason


class _Opinions:
    """Collector of opinions until one authorizer decides."""

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._errors: list[str] = []

    def add(self, opinion: Opinion) -> Decision | None:
        """Return the decision if this opinion decides."""
        verdict, reason = opinion
        failed = isinstance(reason, Failure)
        if failed:
            self._errors.append(str(reason))
        elif reason:
            self._reasons.append(reason)
        return None if verdict is None else Decision(verdict, "" if failed else reason, not verdict, self._error)

    def refusal(self) -> Decision:
        """Return the decision if no authorizer decides."""
        return Decision(False, "\n".join(self._reasons), error=self._error)

    @property
    def _error(self) -> str:
        return aggregate(self._errors)


def aggregate(errors: Sequence[str]) -> str:
    """Join several errors in one text."""
    distinct = list(dict.fromkeys(errors))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)


class Authorizer:
    """Union of a list of authorizers.

    Node and RBAC read `stores`, the registry's by group and plural. `webhooks` calls the Webhook authorizers.
    `policies` are those of ABAC.
    """

    def __init__(
        self,
        authorizers: Sequence[AuthorizerConfig],
        stores: Mapping[tuple[str, str], Store],
        features: Features,
        webhooks: Webhooks,
        policies: Policies | None = None,
    ) -> None:
        """Build the authorizers. Raise KubeconfigError."""
        self._stores, self._features, self._webhooks, self._policies = stores, features, webhooks, policies
        self._index: RoleIndex | None = None
        self._counted = DecisionMetrics()
        self.replace(authorizers)

    def replace(self, configured: Sequence[AuthorizerConfig]) -> None:
        """Replace the authorizers. Raise KubeconfigError."""
        members = tuple(self._build(each) for each in configured)
        self.modes = tuple(each.type for each in configured)
        self.allows_all = self.modes[:1] == ("AlwaysAllow",)
        #: Whether a webhook may decide. If so, only `decide` and `decide_path` are complete. They are while the members
        #: change, too, so a thread that reads between two of these lines never takes a webhook for a local authorizer.
        self.is_remote = True
        self._members = members
        self.is_remote = "Webhook" in self.modes and not self.allows_all

    def _build(self, configured: AuthorizerConfig) -> _Member:
        mode = configured.type
        if mode == "RBAC":
            return _Roles(self._roles)
        if mode == "Node":
            from apiserver.authorization.nodes import NodeAuthorizer
            from apiserver.authorization.policy import node_rules

            return NodeAuthorizer(self._stores, self._features, node_rules(self._features))
        if mode == "ABAC":
            assert self._policies is not None, "webhook authorizers have settings"
            return self._policies
        if mode == "Webhook":
            return self._build_webhook(configured)
        return _Always(allow=mode == "AlwaysAllow")

    def _build_webhook(self, configured: AuthorizerConfig) -> WebhookAuthorizer:
        from apiserver.api.types.authorization import SubjectAccessReview
        from apiserver.webhooks.reviewers import Reviewer
        from kubedra.kubeconfig.reader import read_kubeconfig

        webhook = configured.webhook
        assert webhook is not None, "webhook authorizers have settings"
        where = read_kubeconfig(webhook.kubeconfig)
        reviewer = Reviewer(self._webhooks, where, "authorization.k8s.io", SubjectAccessReview)
        return WebhookAuthorizer(configured.name, reviewer, webhook.call_settings, webhook.conditions, self._counted)

    def families(self) -> list[Family]:
        """Return the metric families of the webhooks."""
        return self._counted.families if "Webhook" in self.modes else []

    @property
    def _roles(self) -> RoleIndex:
        if self._index is None:
            from apiserver.authorization.roles import RoleIndex

            self._index = RoleIndex(self._stores)
        return self._index

    def allows(
        self,
        user: User,
        verb: str,
        group: str,
        resource: str,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        selector: str = "",
    ) -> bool:
        """Return whether a user may use a verb on a resource. It blocks for a webhook: see `run_blocking`."""
        if self.allows_all or MASTERS in user.groups:
            return True  # Like `permits`, but without building a question: this is the most frequent rule.
        question = Question(verb, group, resource, subresource, namespace, name, selector)
        return self.decide_blocking(user, question).allowed if self.is_remote else self.permits(user, question)

    def permits(self, user: User, question: Question) -> bool:
        """Return whether local authorizers and cached webhook answers allow the request, without waiting."""
        if self.allows_all or MASTERS in user.groups:
            return True
        for member in self._members:
            if not isinstance(member, WebhookAuthorizer):
                opinion = member.opinion(user, question)
            elif (recalled := member.recall(user, question)) is not None:
                opinion = recalled
            else:
                return False
            if opinion[0] is not None:
                return opinion[0]
        return False

    def decide_blocking(self, user: User, question: Question) -> Decision:
        return self._judge(user, partial(_opinion, user, question))

    def decide_path_blocking(self, user: User, verb: str, path: str) -> Decision:
        return self._judge(user, partial(_path_opinion, user, verb, path))

    async def decide(self, user: User, question: Question) -> Decision:
        return await self._decide(user, partial(_opinion, user, question))

    async def decide_path(self, user: User, verb: str, path: str) -> Decision:
        return await self._decide(user, partial(_path_opinion, user, verb, path))

    def _judge(self, user: User, opinion_of: _Ask) -> Decision:
        if self.allows_all or MASTERS in user.groups:
            return Decision(True)
        if self.is_remote:
            return wait_on_loop(self._decide(user, opinion_of))
        found = _Opinions()
        for member in self._members:
            opinion = opinion_of(member)
            assert isinstance(opinion, tuple), "no webhook authorizes"
            decision = found.add(opinion)
            if decision is not None:
                return decision
        return found.refusal()

    async def _decide(self, user: User, opinion_of: _Ask) -> Decision:
        if not self.is_remote or MASTERS in user.groups:
            return self._judge(user, opinion_of)
        found = _Opinions()
        for member in self._members:
            opinion = opinion_of(member)
            decision = found.add(opinion if isinstance(opinion, tuple) else await opinion)
            if decision is not None:
                return decision
        return found.refusal()

    def rules_for(self, user: User, namespace: str) -> Rules:
        """Return the rules that apply to a user, as far as the modes can list them."""
        rules: list[Json] = []
        errors: list[str] = []
        incomplete = False
        for mode in self.modes:
            if mode == "AlwaysAllow":
                rules += _ALL
            elif mode == "RBAC":
                rights = self._roles.rights(user, namespace)
                rules += [rule for rule, _ in rights.rules]
                if rights.missing:
                    errors.append(_format_missing_roles(rights.missing).removeprefix("RBAC: "))
            elif mode == "Node" and user.name.startswith("system:node:") and "system:nodes" in user.groups:
                incomplete = True
                errors.append("node authorizer does not support user rule resolution")
            elif mode == "ABAC" and self._policies is not None:
                rules += self._policies.rules(user, namespace)
            elif mode == "Webhook":
                incomplete = True
                errors.append("webhook authorizer does not support user rule resolution")
        return Rules(rules, incomplete, aggregate(errors))

    def list_role_rules(self, user: User, namespace: str) -> tuple[list[Json], list[str]]:
        rights = self._roles.rights(user, namespace)
        return [rule for rule, _ in rights.rules], [grant.role for grant in rights.missing]

    def role_rules(self, kind: str, namespace: str, name: str) -> list[Json] | None:
        return self._roles.role(kind, namespace, name)
