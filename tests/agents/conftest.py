"""A small random model, shared by the tests of the agents."""

import pytest
import torch
from policies import small_policy

torch.set_num_threads(1)


@pytest.fixture
def make_policy():
    """Returns a function that makes a small policy with spread-out logits."""
    return small_policy
