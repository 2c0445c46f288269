from __future__ import annotations

import contract_table


def test_every_statement_has_a_test_and_every_test_names_statements_that_exist() -> None:
    contract_table.load()
    ids = [statement.id for statement in contract_table.STATEMENTS]
    assert len(set(ids)) == len(ids)
    assert {name for name, tests in contract_table.TESTS.items() if tests} == set(ids)


def test_the_document_is_up_to_date() -> None:
    contract_table.load()
    assert contract_table.DOCUMENT.read_text(encoding="utf-8") == contract_table.render({})
