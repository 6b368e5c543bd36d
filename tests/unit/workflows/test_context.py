"""Reading many items: which errors are about one item, and which are about all."""

from __future__ import annotations

import pytest

from osc_placement.client import api_errors
from osc_placement.workflows.context import ReadContext

REDIRECTED = api_errors.Redirected(302, "http://other.example/", method="GET", url="/traits")


@pytest.mark.parametrize(
    "error",
    [
        api_errors.from_status(401, "no token", method="GET"),
        api_errors.from_status(403, "no right", method="GET"),
        REDIRECTED,
    ],
    ids=["401", "403", "redirect"],
)
def test_an_error_of_all_requests_is_raised_once(error: api_errors.ApiError) -> None:
    def read(item: int) -> int:
        raise error

    with pytest.raises(type(error)) as caught:
        list(ReadContext(workers=2).try_each(read, range(10)))
    assert caught.value is error


def test_an_error_of_one_item_is_its_result() -> None:
    missing = api_errors.from_status(404, "it is gone", method="GET")

    def read(item: int) -> int:
        if item == 1:
            raise missing
        return item

    assert list(ReadContext(workers=2).try_each(read, range(3))) == [0, missing, 2]
