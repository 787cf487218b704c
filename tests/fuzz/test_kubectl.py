"""Random kubectl commands have the same output and effect on kubedra as on a real control plane.

Runs where kubectl, kube-apiserver, kube-controller-manager and etcd of 1.36 are on PATH; `python -m tools.fuzz.kubectl`
tries more.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys

import pytest

from tests.support.wire import ROOT, environment
from tools.fuzz.kubectl.forms import common_object, common_text
from tools.fuzz.kubectl.planes import BINARIES
from tools.fuzz.kubectl.sequences import sequences


@pytest.mark.integration
@pytest.mark.timeout(600)
@pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("kubectl", *BINARIES)), reason="no real control plane on PATH"
)
def test_commands_do_the_same_as_on_a_real_control_plane() -> None:
    command = [sys.executable, "-m", "tools.fuzz.kubectl", "--steps=60", "--players=2", "--seed=1"]
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, done.stdout), done.stdout + done.stderr


def test_a_sequence_depends_only_on_its_seed_and_number() -> None:
    first, again = (list(itertools.islice(sequences(3, 25), 4)) for _ in range(2))
    assert first == again
    assert first[2] == next(sequences(3, 25, first=2))
    assert first != list(itertools.islice(sequences(4, 25), 4))
    verbs = {command.arguments[0] for each in itertools.islice(sequences(1, 40), 40) for command in each.commands}
    assert verbs >= {
        "create",
        "apply",
        "replace",
        "patch",
        "delete",
        "label",
        "scale",
        "rollout",
        "get",
        "describe",
        "set",
    }


def test_generated_names_addresses_and_ages_are_the_same_in_every_run() -> None:
    one = 'NAME     AGE\na-c5x9z   3s   10.0.0.17   "resourceVersion": "12"\n'
    two = 'NAME          AGE\na-vvvv2   1m2s   10.0.8.1   "resourceVersion": "7"\n'
    assert common_text(("get", "pods"), one) == common_text(("get", "pods"), two)


def test_names_of_other_objects_stay() -> None:
    assert common_text(("get", "pods"), "web-1") != common_text(("get", "pods"), "web-2")
    spec = {"metadata": {"name": "a", "uid": "u"}, "spec": {"replicas": 1}}
    assert common_object(spec) == {"metadata": {"name": "a"}, "spec": {"replicas": 1}}
