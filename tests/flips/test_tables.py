from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from safetyrepro.errors import InputError
from safetyrepro.flips.item_signals import item_signals, number
from safetyrepro.flips.options import jensen_shannon, kl_divergence, option_probabilities
from safetyrepro.flips.scores import find_model, read_outcomes
from safetyrepro.flips.selection import comparisons
from safetyrepro.flips.signal_table import read_signal_rows, read_signal_tables
from safetyrepro.records import Candidate, Record, write_records
from tests.flips.outcomes import rows, write_csv

HEADER = "item_id,old_correct,new_correct,jsd,update\n"


def write(folder: Path, text: str, name: str = "s.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_signal_table_by_hand(tmp_path: Path) -> None:
    text = (
        "\ufeffitem_id,old_correct,new_correct,conf,jsd,note,update,task\n"
        "a,1,false,0.5,,x,u,t\nb,True,1,nan,0.25,y,u,t\na,0,0,1,1,z,w,t\n"
    )
    first, second = read_signal_tables([write(tmp_path, text)])
    assert (first.update, first.task, first.items) == ("u", "t", ("a", "b"))
    assert first.old_right.tolist() == [True, True]
    assert first.negative.tolist() == [True, False]
    assert set(first.signals) == {"confidence_new", "jsd"}
    assert np.isnan(first.signals["jsd"][0])
    assert second.items == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 'item_id' is missing; found nothing"),
        ("item_id,old_correct\n", "column 'new_correct' is missing"),
        (HEADER, "holds no rows"),
        (HEADER + "a,1,0,high,u\n", "line 2: jsd is 'high', it should be a number or empty"),
        (HEADER + "a,2,0,0,u\n", "line 2: old_correct is '2', it should be true or false, or 0 to 1"),
        (HEADER + "a,,0,0,u\n", "line 2: old_correct is empty"),
        (HEADER + "a,yes,0,0,u\n", "line 2: old_correct is 'yes'"),
        (HEADER + "a,1,0,0,u\na,1,0,0,v\na,1,0,0,u\n", "line 4: item_id 'a' stands twice for update 'u'"),
        (HEADER + " ,1,0,0,u\n", "line 2: item_id is empty"),
        (HEADER + "a,1,0,0\n", "line 2: found 4 fields"),
        ("item_id,old_correct,new_correct,note\na,1,0,x\n", "holds no signal"),
        ("item_id,old_correct,new_correct,conf,confidence\na,1,0,1,1\n", "are the same signal, confidence_new"),
    ],
)
def test_wrong_signal_tables_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_signal_tables([write(tmp_path, text)])
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_signal_that_is_asked_for_has_to_be_there(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + "a,1,0,0.5,u\n")
    with pytest.raises(InputError, match="column 'drift' is missing"):
        read_signal_tables([path], only=["drift"])
    with pytest.raises(InputError, match="stands in two files"):
        read_signal_tables([path, path])


def test_rows_to_route(tmp_path: Path) -> None:
    read = read_signal_rows(write(tmp_path, "item_id,jsd\na,0.5\nb,\n"), "jsd")
    assert read.items == ("a", "b")
    assert read.values[0] == 0.5
    assert math.isnan(read.values[1])
    with pytest.raises(InputError, match="stands twice"):
        read_signal_rows(write(tmp_path, "item_id,jsd\na,0.5\na,1\n"), "jsd")
    with pytest.raises(InputError, match="column 'kl' is missing"):
        read_signal_rows(write(tmp_path, "item_id,jsd\na,0.5\n"), "kl")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", math.nan),
        (None, math.nan),
        ("NaN", math.nan),
        (True, 1.0),
        ("false", 0.0),
        (" 2e3 ", 2000.0),
        ("1_0", None),
        ("x", None),
        ([1], None),
        (10**401, None),
    ],
)
def test_cells_as_numbers(value: object, expected: float | None) -> None:
    assert number(value) == pytest.approx(expected, nan_ok=True)


def test_divergences_against_scipy() -> None:
    generator = np.random.default_rng(1)
    for _ in range(20):
        p, q = (option_probabilities(generator.normal(size=4).tolist()) for _ in range(2))
        assert kl_divergence(p, q) == pytest.approx(entropy(p, q))
        assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q) ** 2)
        assert jensen_shannon(p, q) == pytest.approx(jensen_shannon(q, p))
        assert kl_divergence(p, p) == jensen_shannon(p, p) == 0


def record(model: str, item: str, logprobs: tuple[float, ...], choice: int, **more: object) -> Record:
    texts = {field.name: "" for field in dataclasses.fields(Record)}
    candidates = tuple(
        Candidate(f" option {place}", value, 1, 8, 8, None, None) for place, value in enumerate(logprobs)
    )
    fields = {
        **texts,
        "suite": "native",
        "arm": "matched",
        "model": model,
        "numerics": "none/float32/once/exact",
        "benchmark": "bbq",
        "config_id": "c" * 64,
        "item_id": item,
        "cluster": "bbq-Age-3",
        "repeat": 0,
        "shots": 0,
        "n_prompt_tokens": 3,
        "wire_ids": (),
        "candidates": candidates,
        "response": None,
        "gold": (" option 0",),
        "choice": choice,
        "score": float(choice == 0),
        "suite_score": None,
        "status": "ok",
        "prompt": "Who?",
        "extra": {},
        **more,
    }
    return Record(**fields)  # type: ignore[arg-type]


def test_records_carry_signals_and_answers(tmp_path: Path) -> None:
    write_records(
        tmp_path / "old" / "records.parquet", [record("m", "a", (-1.0, -2.0), 0), record("m", "b", (-1.0, -3.0), 0)]
    )
    new = [record("n", "a", (-3.0, -1.0), 1), record("n", "b", (-1.0,), 0)]
    write_records(tmp_path / "new" / "records.parquet", new)
    frame = read_outcomes([tmp_path]).frame
    assert frame["category"].unique().tolist() == ["Age"]
    assert frame[frame["model"] == "n"]["answer"].tolist() == [" option 1", " option 0"]
    sides = [frame[frame["model"] == name] for name in ("m", "n")]
    signals, ignored = item_signals(*sides, ["a", "b"])
    before, after = option_probabilities([-1.0, -2.0]), option_probabilities([-3.0, -1.0])
    assert signals["confidence_old"][0] == pytest.approx(before.max())
    assert signals["confidence_new"][0] == pytest.approx(after.max())
    assert (signals["margin_old"][0], signals["margin_new"][0]) == (1.0, 2.0)
    assert signals["kl"][0] == pytest.approx(entropy(after, before))
    assert signals["jsd"][0] == pytest.approx(jensenshannon(after, before) ** 2)
    # The new model was given one option for item b: nothing over options is defined there.
    assert [bool(np.isnan(signals[name][1])) for name in ("kl", "jsd", "confidence_new", "margin_old")] == [
        True,
        True,
        True,
        False,
    ]
    assert ignored == ()


def test_one_name_with_two_numerics_is_two_models(tmp_path: Path) -> None:
    both = [record("m", "a", (-1.0, -2.0), 0), record("m", "a", (-2.0, -1.0), 1, numerics="nf4/float32/once/exact")]
    write_records(tmp_path / "r.parquet", both)
    assert read_outcomes([tmp_path]).frame["model"].tolist() == [
        "m (none/float32/once/exact)",
        "m (nf4/float32/once/exact)",
    ]


def test_imported_records_that_hold_no_model_are_one_unknown_model(tmp_path: Path) -> None:
    named = [record("", item, (-1.0, -2.0), 0) for item in ("a", "b")]
    unknown = dict.fromkeys(("model", "arm", "numerics", "template", "decoding", "prompt", "shots"))
    imported = [dataclasses.replace(one, **unknown) for one in named]
    write_records(tmp_path / "old" / "records.parquet", imported)
    write_records(tmp_path / "new" / "records.parquet", [record("m", "a", (-1.0, -2.0), 0)])
    frame = read_outcomes([tmp_path]).frame
    assert sorted(frame["model"]) == ["m", "unknown model", "unknown model"]
    assert find_model(frame, "unknown model", "--old") == "unknown model"
    with pytest.raises(InputError, match="the table holds 'm', 'unknown model'"):
        find_model(frame, "None", "--old")


def test_folders_and_tables_that_do_not_serve(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no records \(\*\.parquet\)"):
        read_outcomes([tmp_path / "empty"])
    means = write(tmp_path, "model,benchmark,config_id,score\na,b,c,0.5\n", "means.csv")
    with pytest.raises(InputError, match="has no item_id column"):
        read_outcomes([means])
    one = write_csv(tmp_path / "one.csv", rows("v1", [1, 0]))
    with pytest.raises(InputError, match="hold two rows for model 'v1'"):
        read_outcomes([one, one])


def test_unknown_models_are_answered_with_known_ones(tmp_path: Path) -> None:
    frame = read_outcomes([write_csv(tmp_path / "t.csv", rows("smol-v1", [1]) + rows("smol-v2", [0]))]).frame
    with pytest.raises(
        InputError, match="--old is 'smol-v11', the table holds 'smol-v1', 'smol-v2'; did you mean 'smol-v1'"
    ):
        find_model(frame, "smol-v11", "--old")


def test_columns_of_a_table_become_signals(tmp_path: Path) -> None:
    table = rows("v1", [1, 1], confidence=[0.9, 0.8], drift=[1, 2], entropy=[5, 6], note=["x", "y"]) + rows(
        "v2", [0, 1], confidence=[0.4, 0.7], drift=[1, 2], entropy=[7, 8], note=["x", ""], only_new=[3, ""]
    )
    frame = read_outcomes([write_csv(tmp_path / "t.csv", table)]).frame
    sides = [frame[frame["model"] == name] for name in ("v1", "v2")]
    signals, ignored = item_signals(*sides, ["i1", "i0"])
    shown = {name: values.tolist() for name, values in signals.items()}
    assert shown.pop("only_new") == pytest.approx([math.nan, 3], nan_ok=True)
    assert shown == {
        "confidence_new": [0.7, 0.4],
        "confidence_old": [0.8, 0.9],
        "drift": [2, 1],
        "entropy_new": [8, 7],
        "entropy_old": [6, 5],
    }
    assert ignored == ("note",)
    bad = frame.assign(confidence="high")
    with pytest.raises(InputError, match="confidence of item 'i0' is 'high'"):
        item_signals(bad[bad["model"] == "v1"], bad[bad["model"] == "v2"], ["i0"])


def test_configurations_are_chosen_by_id_label_or_beginning(tmp_path: Path) -> None:
    table = [
        row | {"suite": suite}
        for suite in ("helm", "native")
        for config in ("alpha-long", "beta-long")
        for model in ("v1", "v2")
        for row in rows(model, [1, 0], config=config)
    ]
    frame = read_outcomes([write_csv(tmp_path / "t.csv", table)]).frame

    def labels(**chosen: str) -> list[str]:
        return [entry.label for entry in comparisons(frame, "v1", "v2", **chosen)]

    assert labels() == ["alpha-long/helm", "beta-long/helm", "alpha-long/native", "beta-long/native"]
    assert labels(config="alpha-long") == labels(config="alph") == ["alpha-long/helm", "alpha-long/native"]
    assert labels(config="beta-long/native") == ["beta-long/native"]
    assert labels(config="alpha-long/helm", new_config="beta-long/native") == ["alpha-long/helm → beta-long/native"]
    with pytest.raises(InputError, match="--config 'gamma' is none of"):
        labels(config="gamma")
    with pytest.raises(InputError, match="--config stands for several configurations"):
        labels(config="alpha-long", new_config="beta-long/helm")
    with pytest.raises(InputError, match="name the old one's with --config"):
        labels(new_config="beta-long/helm")
    with pytest.raises(InputError, match="--benchmark is 'other', the table holds 'bench'"):
        labels(benchmark="other")


def test_models_without_a_common_configuration(tmp_path: Path) -> None:
    frame = read_outcomes(
        [write_csv(tmp_path / "t.csv", rows("v1", [1], config="a") + rows("v2", [1], config="b"))]
    ).frame
    with pytest.raises(InputError, match="share no configuration: the first ran under 'a', the second under 'b'"):
        comparisons(frame, "v1", "v2")
    assert [entry.label for entry in comparisons(frame, "v1", "v2", config="a", new_config="b")] == ["a → b"]
