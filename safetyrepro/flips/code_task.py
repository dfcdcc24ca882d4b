"""Programming problems as a task: code is written greedily and then run against its unit tests, locked away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from safetyrepro.benchmarks.base import Score
from safetyrepro.engine.api import Decoding
from safetyrepro.errors import InputError
from safetyrepro.flips.code_answer import STOPS, read_function, read_module
from safetyrepro.flips.code_file import CodeItem, read_code_items
from safetyrepro.flips.file_task import FileTask
from safetyrepro.flips.item_file import FileItem
from safetyrepro.flips.task import Question
from safetyrepro.sandbox.box import NoIsolation
from safetyrepro.sandbox.isolation import require_isolation
from safetyrepro.sandbox.judge import judge

COMPLETE = "Complete this Python function. Answer with the whole function in one code block."
PASS = "The code has to pass these tests. Answer with it in one code block."  # noqa: S105 - what is asked
CODE_TOKENS = 512
KNOWN = {"humaneval": Path("humaneval") / "HumanEval.jsonl.gz"}
"""Files of the data folder by the name that `--code` takes."""
_SCRIPT_STOPS = ('\n"""', "\nassert", "\nprint", "\nif __name__", "\n```")


class CodeTask(FileTask):
    """Right where the code passes all tests; the reason is kept where it does not."""

    def __init__(self, path: Path, items: Sequence[CodeItem], sha256: str, *, chat: bool) -> None:
        super().__init__(path, items, sha256, chat=chat)
        self.name = Path(path.name.removesuffix(".gz")).stem
        self._code_items = {item.item_id: item for item in items}
        going_on = STOPS if items[0].form == "HumanEval" else _SCRIPT_STOPS
        self.decoding: Decoding | None = Decoding(max_tokens=CODE_TOKENS, stop=() if chat else going_on)

    def score_text(self, question: Question, text: str, finish_reason: str) -> tuple[Score, str | None]:
        """As `Task.score_text`: the code is run.

        Raises:
            InputError: it could not be locked away any more, and was not run.
        """
        item = self._code_items[question.item_id]
        human_eval = item.form == "HumanEval"
        code = read_function(text, item.question, item.tests.entry) if human_eval else read_module(text)
        if code is None:
            status = "truncated" if finish_reason == "length" else "unparsed"
            return Score(0.0, status, "the text holds no code"), None  # type: ignore[arg-type]
        try:
            verdict = judge(code, item.tests)
        except NoIsolation as error:
            raise InputError(
                f"{self.name}, item {item.item_id!r}: code can no longer be locked away here ({error}), and was not "
                "run; run the same command again."
            ) from None
        return Score(float(verdict.passed), "ok", verdict.reason), None

    def _user(self, item: FileItem) -> str:
        problem = self._code_items[item.item_id]
        if problem.form == "HumanEval":
            fenced = f"{COMPLETE}\n\n```python\n{item.question.rstrip()}\n```"
            return fenced if self._chat else item.question
        if self._chat:
            return f"{item.question.strip()}\n\n{PASS}\n\n```python\n{problem.tests.tests}\n```"
        return f'"""\n{item.question.strip()}\n{problem.tests.tests}\n"""\n'


def code_task(path: Path, limit: int | None, *, chat: bool) -> CodeTask:
    """The task of a file of programming problems.

    Raises:
        InputError: as `read_code_items` says, or code cannot be locked away here.
    """
    items, sha256 = read_code_items(path, limit)
    require_isolation()
    return CodeTask(path, items, sha256, chat=chat)


def code_file(named: Path, data_dir: Path | None) -> Path:
    """The file that `--code` names: its path, or for a known name the one in the data folder.

    Raises:
        InputError: a known name without a data folder.
    """
    known = KNOWN.get(str(named))
    if known is None or named.is_file():
        return named
    if data_dir is None:
        raise InputError(
            f"--code {named} reads {known} of the data folder: name it with --data-dir or SAFETYREPRO_DATA."
        )
    return data_dir / known
