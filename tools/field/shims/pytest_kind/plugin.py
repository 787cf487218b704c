"""The option of pytest-kind's plugin."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-cluster", action="store_true", help="no effect: the tool stops the control plane")
