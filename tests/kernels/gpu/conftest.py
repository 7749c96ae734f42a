"""Which kernels are launched, and how to do without them."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from legs.kernels.gpu import launch


@pytest.fixture
def launched(monkeypatch):
    """Names of the kernels that were launched."""
    names, run = [], launch.run

    def record(part, name, *args, **constants):
        names.append(name)
        run(part, name, *args, **constants)

    monkeypatch.setattr(launch, "run", record)
    return names


@pytest.fixture
def use(monkeypatch):
    """Within a block, kernels (``"auto"``) or PyTorch (``"reference"``)."""

    @contextmanager
    def choose(choice):
        with monkeypatch.context() as patched:
            if choice == "reference":
                patched.setattr(launch, "applies", lambda x: False)
            yield

    return choose
