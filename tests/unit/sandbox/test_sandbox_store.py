from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_provider_analytics.sandbox.seeds import generate_websites
from airflow_provider_analytics.sandbox.store import Store


@pytest.fixture
def store() -> Store:
    return Store()


def test_the_same_seed_gives_the_same_websites(store: Store) -> None:
    store.seed(50, seed=7)
    first = store.websites()
    store.clear()
    store.seed(50, seed=7)

    assert store.websites() == first
    assert len(first) == 50


def test_another_seed_gives_others() -> None:
    assert list(generate_websites(5, 7)) != list(generate_websites(5, 8))


def test_fewer_websites_of_a_seed_are_the_first_of_more() -> None:
    assert list(generate_websites(20, 7))[:5] == list(generate_websites(5, 7))


def test_seeding_again_adds_other_domains(store: Store) -> None:
    store.seed(300, seed=7)
    store.seed(300, seed=7)

    assert len({website["domain"] for website in store.websites()}) == 600


def test_seeded_websites_are_a_realistic_mixture() -> None:
    websites = list(generate_websites(500, 7))

    assert {website["privacy"] for website in websites} == {0, 1, 2}
    assert all((website["password"] is not None) == (website["privacy"] == 2) for website in websites)
    for name in ("favorite", "email", "exclude_bots"):
        assert {bool(website[name]) for website in websites} == {True, False}
    for name in ("exclude_ips", "exclude_params"):
        assert 0 < sum(website[name] is None for website in websites) < 500
        assert any("\n" in (website[name] or "") for website in websites)
    created = [website["created_at"] for website in websites]
    assert created == sorted(created)


def test_seeded_domains_and_addresses_are_reserved_ones() -> None:
    websites = list(generate_websites(500, 7))

    assert all(".example" in website["domain"] for website in websites)
    addresses = {ip for website in websites for ip in (website["exclude_ips"] or "").splitlines()}
    assert all(ip.startswith(("192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:")) for ip in addresses)


def test_clear_begins_again_with_id_1(store: Store) -> None:
    store.seed(3)
    store.clear()

    assert store.add("a.example")["id"] == 1


def test_an_id_is_not_given_twice(store: Store) -> None:
    store.delete(store.add("a.example")["id"])

    assert store.add("a.example")["id"] == 2


def test_domains_are_found_ignoring_case(store: Store) -> None:
    store.add("bücher.example")
    store.add("BÜCHER.example")

    assert [website["id"] for website in store.find("Bücher.Example")] == [1, 2]


@pytest.mark.parametrize("change", ["add", "update"])
def test_unknown_settings_are_an_error(store: Store, change: str) -> None:
    store.add("a.example")

    with pytest.raises(ValueError, match="colour"):
        store.add("b.example", colour="red") if change == "add" else store.update(1, {"colour": "red"})


def test_changing_or_deleting_nothing(store: Store) -> None:
    assert store.update(7, {"email": 1}) is None
    assert store.delete(7) is None
    assert store.get(7) is None
    assert store.password(7) is None


def test_a_copy_stays_as_it_was(store: Store) -> None:
    store.add("a.example")
    copied = store.copy()
    store.update(1, {"privacy": 1})
    store.add("b.example")

    assert [(website["id"], website["privacy"]) for website in copied.websites()] == [(1, 0)]


def test_sampling_repeats_itself_after_clear(store: Store) -> None:
    def sample() -> list[list[dict[str, Any]]]:
        store.clear()
        store.seed(20)
        return [store.sample(3), store.sample(30)]

    first = sample()

    assert [len(websites) for websites in first] == [3, 20]
    assert first == sample()


def test_several_threads_may_use_it(store: Store) -> None:
    def add(thread: int) -> None:
        for number in range(25):
            store.add(f"site-{thread}-{number}.example")

    threads = [threading.Thread(target=add, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [website["id"] for website in store.websites()] == list(range(1, 101))
