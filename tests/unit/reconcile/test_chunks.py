from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.reconcile.chunks import chunk_websites

IDS = st.one_of(st.integers(min_value=0, max_value=10**9), st.uuids().map(str))


@given(st.lists(IDS, unique_by=str), st.integers(min_value=1, max_value=50))
def test_each_website_is_in_one_chunk_and_stays_there(ids: list[int | str], chunks: int) -> None:
    divided = chunk_websites([{"id": one, "domain": "a.example"} for one in ids], chunks)
    assert len(divided) == chunks
    assert sorted(one for chunk in divided for one in chunk) == sorted(map(str, ids))
    # Whatever other websites there are.
    some = chunk_websites(ids[::2], chunks)
    assert all(set(chunk) <= set(whole) for chunk, whole in zip(some, divided, strict=True))


def test_chunks_have_one_size_and_are_the_same_in_every_process() -> None:
    assert chunk_websites(range(1, 8), 3) == [["3", "6"], ["1", "4", "7"], ["2", "5"]]
    assert chunk_websites(["a1b2", "site-7"], 3) == [[], ["a1b2"], ["site-7"]]
    with pytest.raises(ValueError, match=r"chunks=0 is not allowed; allowed: a whole number, 1 or more"):
        chunk_websites([], 0)
