"""Records of a sealed run: right, stamped, the same again, and readable by the analyses."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from safetyrepro.config import ModelSpec
from safetyrepro.engine import load
from safetyrepro.engine.api import Decoding
from safetyrepro.envelope.grid import cells
from safetyrepro.envelope.items import Items
from safetyrepro.envelope.ledger import LEDGER
from safetyrepro.envelope.plan import grouped
from safetyrepro.envelope.run import SHARDS, jobs, run_sealed, shard_path
from safetyrepro.envelope.shard import ShardJob, execute, renderings, work_of
from safetyrepro.envelope.verify import verify
from safetyrepro.errors import InputError
from safetyrepro.records import Record, read_records
from safetyrepro.stability.source import benchmark_grids, read_scores
from tests.envelope.conftest import Ran
from tests.envelope.grids import BBQ, QUIET, SCORING, TEMPLATE, entries, envelope, seal


def records(folder: Path) -> list[Record]:
    return [record for path in sorted((folder / SHARDS).glob("*.parquet")) for record in read_records(path)]


def test_every_cell_has_every_item_once(ran: Ran) -> None:
    found = records(ran.folder)
    assert len(found) == ran.finished.rows == 2 * 16 * 2
    per = Counter((record.cell_id, record.item_id, record.repeat) for record in found)
    assert set(per.values()) == {1}
    assert {record.cell_id for record in found} == {cell.cell_id for cell in cells(ran.sealed.plan.envelope)}
    assert {record.model for record in found} == {"tiny-0", "tiny-1"}
    assert len({record.model_sha256 for record in found}) == 2


def test_one_model_is_in_memory_at_a_time(models: tuple[Path, ...], tmp_path: Path, held_at_loads: list[int]) -> None:
    sealed = seal(envelope(models[:2], benchmarks=[BBQ], axes=[TEMPLATE]), tmp_path / "sealed")
    run_sealed(sealed.folder, None, QUIET)
    assert held_at_loads == [0, 0]


def test_the_seal_is_stamped_into_every_record(ran: Ran) -> None:
    for record in records(ran.folder):
        assert record.extra["seal"] == ran.sealed.seal
        assert record.extra["axis.template"] == record.template
        assert record.status != "missing"


def test_answers_are_those_of_the_engine_by_itself(ran: Ran, models: tuple[Path, ...]) -> None:
    """Exact mode, an item at a time, against the shard that shared its beginnings."""
    engine = load(ModelSpec(id=str(models[0]), quant="none", threads=1))
    try:
        own = [record for record in records(ran.folder) if record.model == "tiny-0"]
        for record in own[:: max(len(own) // 12, 1)]:
            assert record.prompt is not None
            ids = engine.tokenizer.encode(record.prompt)
            if record.scoring == "free":
                heat = 0.7 if record.decoding == "T=0.7" else 0.0
                decoding = Decoding(max_tokens=2, temperature=heat, stop=("\n",))
                assert engine.generate([ids], decoding)[0].text == record.response
                continue
            for candidate in record.candidates:
                whole = engine.tokenizer.encode(record.prompt + candidate.text)
                logprobs = engine.score([whole])[0].logprobs
                total = sum(value or 0.0 for value in logprobs[len(ids) :])
                assert candidate.logprob == pytest.approx(total, abs=1e-3)
            values = [candidate.logprob or 0.0 for candidate in record.candidates]
            assert record.choice == values.index(max(values))
    finally:
        engine.close()


def test_letters_are_scored_behind_the_prompt_of_generated_answers(ran: Ran) -> None:
    prompts: dict[tuple[str, int, str], dict[str, set[str]]] = {}
    for record in records(ran.folder):
        if record.benchmark == "bbq" and record.model == "tiny-0":
            key = (record.template or "", record.shots or 0, record.item_id)
            prompts.setdefault(key, {}).setdefault(record.scoring or "", set()).add(record.prompt or "")
    assert len(prompts) == 2 * 2 * 2
    for (template, _, _), by_path in prompts.items():
        free, logprob = by_path["free"].pop(), by_path["logprob"].pop()
        assert not by_path["free"]
        if template == "minimal":
            assert free == logprob
        else:
            assert free.endswith("\nReasoning:")
            assert logprob == free.removesuffix("Reasoning:") + "Answer:"


def test_identical_requests_are_asked_once(ran: Ran, models: tuple[Path, ...]) -> None:
    engine = load(ModelSpec(id=str(models[0]), quant="none", mode="shared", threads=1))
    try:
        repeated = envelope(models[:1], axes=[TEMPLATE, SCORING], benchmarks=[BBQ])
        group = grouped(cells(repeated))[0]
        job = jobs(ran.sealed, Items(None))[0]
        twice = [job.cells[0], job.cells[0], *job.cells[1:]]
        data = Items(None).of(group[0].config)
        rendered = renderings([cell.config for cell in twice], data, engine.tokenizer)
        work = work_of(twice, rendered)
        assert work.asked == len(work.generations) + len(work.scores) + 2
    finally:
        engine.close()


def test_a_job_is_json_and_gives_the_same_records_anywhere(ran: Ran) -> None:
    job = jobs(ran.sealed, Items(None))[1]
    again = ShardJob.model_validate_json(job.model_dump_json())
    assert again == job
    engine = load(again.model.model)
    try:
        done = execute(again, engine, Items(None))
        wrong = again.model_copy(update={"weights_sha256": "0" * 64})
        with pytest.raises(InputError, match=f"sealed is {'0' * 64}"):
            execute(wrong, engine, Items(None))
        with pytest.raises(InputError, match="the items of bbq are not those that were sealed"):
            execute(again.model_copy(update={"items": again.items[:1]}), engine, Items(None))
    finally:
        engine.close()
    assert done.records == read_records(shard_path(ran.folder, job.name))


def test_repeats_are_numbered_and_differ(models: tuple[Path, ...], tmp_path: Path) -> None:
    hot = {"decoding": {"max_tokens": 6, "temperature": 2.0}, "scoring": {"path": "free", "extraction": "lenient"}}
    sealed = seal(envelope(models[:1], axes=[], benchmarks=[BBQ], config=hot, repeats=3), tmp_path / "out")
    assert run_sealed(sealed.folder, None, QUIET).rows == 6
    found = records(sealed.folder)
    assert Counter(record.repeat for record in found) == {0: 2, 1: 2, 2: 2}
    assert len({record.response for record in found}) > 2
    assert verify(sealed.folder).holds


def test_a_finished_run_is_kept(ran: Ran, copy: Callable[[], Path]) -> None:
    folder = copy()
    before = (folder / LEDGER).read_bytes()
    again = run_sealed(folder, None, QUIET)
    assert (again.kept, again.head, again.tokens) == (len(ran.sealed.plan.shards), ran.finished.head, 0)
    assert (folder / LEDGER).read_bytes() == before


def test_goes_on_after_every_kind_of_cut(ran: Ran, copy: Callable[[], Path]) -> None:
    """A shard without its line, a line cut in the middle, half a file: as a kill leaves them."""
    folder = copy()
    lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
    (folder / LEDGER).write_bytes(b"".join(lines[:-2]) + lines[-2][:40])
    last = shard_path(folder, ran.sealed.plan.shards[-1].name)
    last.write_bytes(last.read_bytes()[:100])
    (folder / SHARDS / f".{last.name}.abcdef").write_bytes(b"half")
    again = run_sealed(folder, None, QUIET)
    assert again.kept == len(lines) - 2
    assert verify(folder).holds
    assert records(folder) == records(ran.folder)


def test_refuses_a_run_that_was_touched(ran: Ran, copy: Callable[[], Path]) -> None:
    folder = copy()
    shard = shard_path(folder, ran.sealed.plan.shards[0].name)
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=rf"{shard.name}: was changed after it was finished"):
        run_sealed(folder, None, QUIET)
    shard.unlink()
    with pytest.raises(InputError, match="is missing, and the ledger says that it is finished"):
        run_sealed(folder, None, QUIET)
    lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
    (folder / LEDGER).write_bytes(b"".join(lines[1:]))
    with pytest.raises(InputError, match=r"ledger\.jsonl, line 1: does not follow from the line before"):
        run_sealed(folder, None, QUIET)


def _hold(lock: str, ready: multiprocessing.synchronize.Event, end: multiprocessing.synchronize.Event) -> None:
    from filelock import FileLock

    with FileLock(lock):
        ready.set()
        end.wait(60)


def test_two_at_once_are_refused(copy: Callable[[], Path]) -> None:
    folder = copy()
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(folder / ".lock"), ready, end))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(InputError, match="another process is running it"):
            run_sealed(folder, None, QUIET)
    finally:
        end.set()
        other.join(60)


def test_the_grid_reads_a_results_folder(ran: Ran) -> None:
    grids = benchmark_grids(read_scores(ran.folder))
    assert {grid.benchmark: len(grid.configurations) for grid in grids} == {"bbq": 12, "crows_pairs": 4}
    assert {grid.models for grid in grids} == {("tiny-0", "tiny-1")}
    assert {grid.kind for grid in grids} == {"mean", "parity"}


def test_ledger_says_what_ran(ran: Ran) -> None:
    for entry in entries(ran.folder):
        assert entry.facts["numerics"].startswith("none/float32")
        assert entry.facts["machine"]["cores"] > 0
        json.dumps(entry.facts, allow_nan=False)
