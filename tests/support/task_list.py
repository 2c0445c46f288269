"""How the tests of this folder write down tasks, for the fixture ``run_tasks``, and read what became of them."""

from __future__ import annotations

from typing import Any


class Task:
    """A task to be: an operator and its arguments."""

    def __init__(self, operator: type, **arguments: Any) -> None:
        self.operator = operator
        self.arguments = arguments


def ends(tasks: Any) -> dict[str, tuple[str, int]]:
    """Return the final state and the number of the last try, by task id."""
    return {task_id: (task.state, task.try_number) for task_id, task in tasks.items()}
