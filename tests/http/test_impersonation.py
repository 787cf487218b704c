"""Impersonation: the rules by themselves, and the refusals of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import Features
from apiserver.authorization.authorizer import Authorizer
from apiserver.http.handlers.impersonation import Impersonation, impersonate, parse_identity
from apiserver.registry.definition.authority import Decision, Question
from apiserver.request.messages import User
from apiserver.webhooks.client import Webhooks
from tests.support.server import Running, serve
from tests.support.tokens import token_flag

pytestmark = pytest.mark.integration

MASTER = User("root", "", ("system:masters", "system:authenticated"))
ALICE = User("alice", "", ("devs", "system:authenticated"))
LIST = Question("list", "resource.k8s.io", "resourceclaims", namespace="default")
#: Without authorizers only members of system:masters may do anything.
NO_RIGHTS = Authorizer((), {}, Features(), Webhooks({}, lambda *_: False))


def become(
    headers: dict[str, str], *, user: User = MASTER, constrained: bool = True, question: Question | None = LIST
) -> User:
    identity = parse_identity(headers, constrained=constrained)
    assert identity is not None
    return asyncio.run(
        impersonate(NO_RIGHTS, user, identity, question, "/version", "GET", constrained=constrained)
    ).user


def refusal(headers: dict[str, str], *, constrained: bool = True, question: Question | None = LIST) -> StatusError:
    with pytest.raises(StatusError) as caught:
        become(headers, user=ALICE, constrained=constrained, question=question)
    return caught.value


@pytest.mark.parametrize(
    ("headers", "groups"),
    [
        ({"impersonate-user": "bob"}, ("system:authenticated",)),
        ({"impersonate-user": "bob", "impersonate-group": "a\nb"}, ("a", "b", "system:authenticated")),
        ({"impersonate-user": "bob", "impersonate-group": "system:unauthenticated"}, ("system:unauthenticated",)),
        ({"impersonate-user": "system:anonymous"}, ("system:unauthenticated",)),
        (
            {"impersonate-user": "system:serviceaccount:ns:sa"},
            ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        ),
        ({"impersonate-user": "system:serviceaccount:ns:sa", "impersonate-group": "g"}, ("g", "system:authenticated")),
        ({"impersonate-user": "system:node:n1"}, ("system:nodes", "system:authenticated")),
    ],
)
def test_an_impersonated_user_has_the_requested_groups_and_those_of_its_kind(
    headers: dict[str, str], groups: tuple[str, ...]
) -> None:
    assert become(headers).groups == groups


def test_without_constrained_impersonation_a_node_has_only_the_requested_groups() -> None:
    assert become({"impersonate-user": "system:node:n1"}, constrained=False).groups == ("system:authenticated",)


def test_uid_and_extra_are_taken_over_with_keys_unescaped() -> None:
    user = become(
        {"impersonate-user": "bob", "impersonate-uid": "u1", "impersonate-extra-example.com%2fscopes": "view\nedit"}
    )
    assert (user.uid, dict(user.extra)) == ("u1", {"example.com/scopes": ("view", "edit")})


@pytest.mark.parametrize(
    ("name", "mode"),
    [("bob", "user-info"), ("system:node:n1", "arbitrary-node"), ("system:serviceaccount:ns:sa", "serviceaccount")],
)
def test_a_refusal_names_the_constrained_verb_of_the_request(name: str, mode: str) -> None:
    error = refusal({"impersonate-user": name})
    assert (
        error.message
        == f'resourceclaims.resource.k8s.io is forbidden: User "alice" cannot impersonate-on:{mode}:list resource'
        ' "resourceclaims" in API group "resource.k8s.io" in the namespace "default"'
    )


def test_a_refusal_for_a_path_names_the_path() -> None:
    assert (
        refusal({"impersonate-user": "bob"}, question=None).message
        == 'forbidden: User "alice" cannot impersonate-on:user-info:get path "/version"'
    )


def test_without_the_gate_a_refusal_names_the_user() -> None:
    error = refusal({"impersonate-user": "bob"}, constrained=False)
    assert (
        error.message
        == 'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster'
        " scope"
    )
    assert error.details == {"name": "bob", "kind": "users"}


def test_a_refusal_does_not_look_like_html() -> None:
    identity = parse_identity({"impersonate-user": "x"}, constrained=False)
    assert identity is not None
    with pytest.raises(StatusError) as caught:
        asyncio.run(impersonate(NO_RIGHTS, User("<b>&"), identity, LIST, "", "GET", constrained=False))
    assert 'User "&lt;b&gt;&amp;"' in caught.value.message


@pytest.mark.parametrize(
    ("constrained", "text"),
    [
        (
            True,
            (
                'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)}'
                " without impersonating a user name"
            ),
        ),
        (False, "requested [{Group  devs    }] without impersonating a user"),
    ],
)
def test_companions_without_a_name_are_a_bad_request(constrained: bool, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse_identity({"impersonate-group": "devs"}, constrained=constrained)
    assert (caught.value.code, caught.value.message) == (400, text)


def test_without_headers_no_user_is_requested() -> None:
    assert parse_identity({"user-agent": "kubectl"}, constrained=True) is None


class Allowing:
    """An authorizer that allows some rights, as `verb resource/subresource name`, and records the questions."""

    def __init__(self, *allowed: str) -> None:
        self.allowed, self.asked, self.users = set(allowed), list[str](), list[User]()

    async def decide(self, user: User, question: Question) -> Decision:
        what = "/".join(filter(None, (question.resource, question.subresource)))
        self.asked.append(" ".join(filter(None, (question.verb, what, question.name))))
        self.users.append(user)
        return Decision(self.asked[-1] in self.allowed)


AGENT = User(
    "system:serviceaccount:ns:agent",
    extra={"authentication.kubernetes.io/node-name": ("n1",), "authentication.kubernetes.io/pod-name": ("p",)},
)
ON_LIST = "impersonate-on:{}:list resourceclaims"


def act(authorizer: Allowing, headers: dict[str, str], user: User = AGENT) -> Impersonation:
    identity = parse_identity(headers, constrained=True)
    assert identity is not None
    return asyncio.run(impersonate(authorizer, user, identity, LIST, "", "GET", constrained=True))  # type: ignore[arg-type]


def test_a_service_account_may_act_as_the_node_that_its_pod_is_on() -> None:
    """The authorizer sees the keys of the claims of its token, not their values: the answer holds on all nodes."""
    node = {"impersonate-user": "system:node:n1"}
    authorizer = Allowing(ON_LIST.format("associated-node"), "impersonate:associated-node nodes *")
    found = act(authorizer, node)
    assert (found.user.name, found.constraint) == ("system:node:n1", "impersonate:associated-node")
    assert found.user.groups == ("system:nodes", "system:authenticated")
    keys = ("authentication.kubernetes.io/node-name", "authentication.kubernetes.io/pod-name")
    assert {tuple(user.extra.items()) for user in authorizer.users} == {
        (("authentication.kubernetes.io/associated-node-keys", keys),)
    }
    others = Allowing(ON_LIST.format("arbitrary-node"), "impersonate:arbitrary-node nodes n1", "impersonate users x")
    assert act(others, node).constraint == "impersonate:arbitrary-node"
    assert others.asked[0] == ON_LIST.format("associated-node")
    with pytest.raises(StatusError, match="cannot impersonate-on:associated-node:list resource"):
        act(Allowing(), node)
    for user, name in ((AGENT, "n2"), (replace(AGENT, name="agent"), "n1"), (replace(AGENT, extra={}), "n1")):
        with pytest.raises(StatusError, match="cannot impersonate-on:arbitrary-node:list resource"):
            act(authorizer, {"impersonate-user": f"system:node:{name}"}, user)


def test_a_right_by_the_old_verb_has_no_constraint() -> None:
    assert act(Allowing("impersonate users bob"), {"impersonate-user": "bob"}).constraint == ""


@pytest.mark.parametrize(
    ("headers", "one"),
    [
        ({"impersonate-group": "a\nb\nc\nd"}, "groups *"),
        ({"impersonate-extra-x.io%2fa": "1\n2", "impersonate-extra-x.io%2fb": "3\n4"}, "userextras/* *"),
    ],
)
def test_four_claims_of_a_kind_are_one_question_about_any_claim(headers: dict[str, str], one: str) -> None:
    allowed = (ON_LIST.format("user-info"), "impersonate:user-info users bob", f"impersonate:user-info {one}")
    authorizer = Allowing(*allowed)
    found = act(authorizer, {"impersonate-user": "bob", **headers})
    assert (found.constraint, len(authorizer.asked)) == ("impersonate:user-info", 3)
    fewer = {name: value.rpartition("\n")[0] or value for name, value in headers.items()}
    with pytest.raises(StatusError):
        act(Allowing(*allowed), {"impersonate-user": "bob", **dict(list(fewer.items())[:1])})


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"impersonate-group": "a\n"}, "impersonating the empty string group is not allowed"),
        ({"impersonate-group": "system:masters"}, "impersonating the system:masters group is not allowed"),
        ({"impersonate-extra-": "a"}, "impersonating the empty string key in extra is not allowed"),
        (
            {"impersonate-extra-a": "a"},
            (
                'impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "a": must be a'
                ' domain-prefixed path (such as "acme.io/foo")'
            ),
        ),
        ({"impersonate-extra-x.io%2fA": "a"}, 'impersonating a non-lowercase key in extra is not allowed: "x.io/A"'),
        ({"impersonate-extra-x.io%2fa": "a\n"}, "impersonating the empty string value in extra is not allowed"),
    ],
)
def test_constrained_impersonation_refuses_invalid_claims(headers: dict[str, str], problem: str) -> None:
    allowed = [ON_LIST.format("user-info"), "impersonate:user-info users bob", "impersonate:user-info groups a"]
    with pytest.raises(StatusError) as caught:
        act(Allowing(*allowed), {"impersonate-user": "bob", **headers})
    assert caught.value.message.endswith(f": {problem}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tokens = token_flag(tmp_path_factory.mktemp("tokens"), 'root,root,r1,"system:masters"\nalice,alice,a1,"devs"\n')
    with serve(tokens, "--authorization-mode", "RBAC") as running:
        yield running


def test_on_the_wire_a_repeated_group_header_counts_each_time(server: Running) -> None:
    import http.client

    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.putrequest("GET", "/api/v1/pods")
    for name, value in (
        ("Authorization", "Bearer root"),
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "system:masters"),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200


def test_impersonation_does_not_depend_on_cached_headers(server: Running) -> None:
    wire = server.wire("root")
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    for _ in range(2):
        for header, name in ({"X-Name-Of-Others": "bob"}, "root"), ({"Impersonate-User": "bob"}, "bob"):
            answer = wire.post(review, {}, **header)
            assert answer.json["status"]["userInfo"]["username"] == name
