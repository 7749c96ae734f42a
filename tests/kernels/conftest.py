"""Kernels for GPUs: on a GPU if there is one, else emulated."""

import pytest
import torch

from tests.data.conftest import legs_data
from tests.kernels import emulation

__all__ = ["legs_data"]


@pytest.fixture(scope="session")
def kernel_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def gpu(monkeypatch, kernel_folder):
    """Where the kernels are: ``"cuda"``, or ``"cpu"`` where they are emulated."""
    if torch.cuda.is_available():
        yield "cuda"
    elif emulation.available():
        with emulation.emulated(monkeypatch, kernel_folder):
            yield "cpu"
    else:
        pytest.skip("neither a GPU nor a C++ compiler")


@pytest.fixture
def one_thread():
    """One thread, whatever a test sets."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
