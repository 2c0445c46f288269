from __future__ import annotations

import contract_table


def test_every_statement_has_a_test_and_every_test_names_statements_that_exist() -> None:
    contract_table.load()
    ids = [one.id for one in contract_table.STATEMENTS] + [one.id for one in contract_table.OPEN_POINTS]
    assert len(set(ids)) == len(ids)
    assert {name for name, tests in contract_table.TESTS.items() if tests} == set(ids)
