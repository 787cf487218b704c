"""The report on four nodes of eight GPUs, and on two."""

from pathlib import Path

import drain

PROJECT = Path(__file__).parent.parent
FILES = [f"--running={PROJECT / 'running.yaml'}", f"--jobs={PROJECT / 'jobs.yaml'}"]


def test_ten_jobs_and_the_service_do_not_fit_on_two_of_four_nodes(capsys):
    assert drain.main([*FILES, "--nodes=4", "--drain=2"]) == 1
    report = capsys.readouterr().out
    # 16 GPUs are left: the service has 4 and six jobs have 12, so four jobs wait.
    assert "8 of 12 pods run, 4 wait." in report
    assert "(drained) | 0 | 0 |" in report
    assert "what would help" in report


def test_they_fit_when_one_node_drains(capsys):
    assert drain.main([*FILES, "--nodes=4", "--drain=1"]) == 0
    assert "12 of 12 pods run, 0 wait." in capsys.readouterr().out
