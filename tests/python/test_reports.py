"""samebits.bench and samebits.report: what they write, and what they say of bad input."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from samebits.bench import layouts  # noqa: E402: needs PyTorch
from samebits.bench.operands import operands_of  # noqa: E402
from samebits.bench.ranks import on_ranks  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def run(module, *arguments):
    return subprocess.run([sys.executable, "-m", f"samebits.{module}", *arguments], capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    done = run(
        "bench", "--shape", "40x88", "--tokens", "1,3", "--repeats", "2", "--layouts", "tp2,tp2+cp2+sp,tp3", "--time-layouts", "--exact-tokens", "9",
        "--contract", "bf16-tree-v1,I=max:16", "--device", "cpu", "--json", str(folder / "r.json"), "--csv", str(folder / "r.csv"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, json.loads((folder / "r.json").read_text())


def test_the_report_has_the_schema(written):
    folder, report = written
    assert (report["schema"], report["command"], report["ok"]) == ("samebits.report/1", "bench", True)
    assert report["contract"]["name"] and len(report["contract"]["fingerprint"]) == 16
    assert {row["name"] for row in report["layouts"]} == {"tp1", "tp2", "tp2+cp2+sp", "tp3"}
    columns = {"output", "training_output", "d_hidden", "d_gate", "d_up", "d_down"}
    for row in report["layouts"]:
        if row["status"] == "ok":
            assert set(row["mismatch"]) == set(row["digest"]) == columns and not any(row["mismatch"].values())
            assert row["digest"] == report["layouts"][0]["digest"]
    assert report["invariance"] == {"repeat": 0, "row_vs_batch": 0}
    assert {row["layout"] for row in report["rows"]} >= {"tp1", "tp2", "tp2+cp2+sp"}
    for row in report["rows"]:
        ours = row["ours_us"]
        assert 0 < ours["min"] <= ours["median"] <= ours["p95"] <= ours["max"]
        assert row["ratio"] == pytest.approx(ours["median"] / row["baseline_us"]["median"])
    assert 1e-4 < report["accuracy_by"]["f32-tree-v1"]["output"]["rel_l2"] < 1e-2
    assert report["accuracy_by"]["Hugging Face, FP32"]["output"]["rel_l2"] < 1e-5
    assert report["ceiling"]["read_bytes_per_second"] > 0 and report["environment"]["command_line"].startswith("python -m samebits.bench")
    with (folder / "r.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == len(report["rows"]) and float(rows[0]["ours_us_median"]) == report["rows"][0]["ours_us"]["median"]


@pytest.mark.parametrize("failing", [0, 2])  # the first call, and one that is timed
def test_a_rank_that_fails_alone_frees_the_others(monkeypatch, failing):
    """Before the call, where no rank of the library hears of it."""
    forward, calls = layouts.Rank.forward, []

    def fails(rank):
        if rank.plan.shard.tp_rank == 1:
            calls.append(rank)
            if len(calls) > failing:
                raise MemoryError("rank 1 alone")
        forward(rank)

    monkeypatch.setattr(layouts.Rank, "forward", fails)
    operands = operands_of(3, 40, 88, "cpu")
    with pytest.raises(MemoryError, match="rank 1 alone"):
        on_ranks(1, lambda _: layouts.times_on("bf16-tree-v1", layouts.layout_of("tp3"), operands, True, 2), timeout=60)
    calls.clear()
    if failing == 0:
        with pytest.raises(MemoryError, match="rank 1 alone"):
            on_ranks(1, lambda _: layouts.results_on("bf16-tree-v1", layouts.layout_of("tp3"), operands, True), timeout=60)


def test_layouts_of_processes(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "samebits.bench"]
    command += ["--device", "cpu", "--shape", "40x88", "--tokens", "5", "--repeats", "3", "--layouts", "tp2,tp2+sp,cp2,tp4"]
    done = subprocess.run([*command, "--json", str(tmp_path / "p.json")], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "p.json").read_text())["rows"]
    assert [(row["direction"], row["layout"]) for row in rows] == [
        (way, name) for way in ("forward", "both") for name in ("tp2", "tp2+sp", "cp2")
    ]
    assert all(row["ours_us"]["min"] > 0 and row["baseline"] == "samebits, one rank" for row in rows)


def test_a_page_and_figures(written):
    pytest.importorskip("matplotlib")
    folder, report = written
    done = run("report", str(folder / "r.json"), "--out", str(folder / "page"))
    assert done.returncode == 0, done.stderr
    for name in ("ratios", "mismatches", "roofline", "errors"):
        assert (folder / "page" / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page = (folder / "page" / "report.html").read_text()
    assert "all held" in page and page.count("data:image/png;base64,") == 4 and report["contract"]["fingerprint"] in page
    assert "://" not in page  # nothing is fetched


def test_reports_of_the_command(tmp_path):
    """What `samebits verify` and `samebits bench` write."""
    pytest.importorskip("matplotlib")
    recorded = ROOT / "docs" / "results" / "h200" / "mpi_np8_sm90-v1.json"
    done = run("report", str(recorded), "--out", str(tmp_path / "verify"))
    assert done.returncode == 0, done.stderr
    assert "NVIDIA H200" in (tmp_path / "verify" / "report.html").read_text() and (tmp_path / "verify" / "mismatches.png").exists()
    times = {"median": 3.0, "p95": 4.0, "min": 2.0, "max": 5.0}
    bench = json.loads(recorded.read_text())
    rows = [
        {
            "direction": "forward",
            "tokens": 8,
            "layout": "tp1",
            "contract": "sm90-v1",
            "baseline": None,
            "ours_us": times,
            "baseline_us": None,
        }
    ]
    rows.append({**rows[0], "tokens": 1, "baseline": "cuBLASLt", "baseline_us": times, "ratio": 1.0, "flops_per_second": 1e12})
    bench.update(command="bench", shape={"hidden": 4096, "intermediate": 12288, "source": "qwen3-8b"}, layouts=[], rows=rows)
    bench["ceiling"] = {"flops_per_second": {"bf16": 7e14}, "read_bytes_per_second": 4e12}
    (tmp_path / "bench.json").write_text(json.dumps(bench))
    done = run("report", str(tmp_path / "bench.json"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bench" / "ratios.png").exists() and (tmp_path / "bench" / "roofline.png").exists()


def test_a_mismatch_is_shown_and_counted(written, tmp_path):
    pytest.importorskip("matplotlib")
    _, report = written
    report = json.loads(json.dumps(report))
    report["layouts"][1]["mismatch"]["output"], report["layouts"][1]["status"], report["ok"] = 17, "mismatch", False
    (tmp_path / "bad.json").write_text(json.dumps(report))
    assert run("report", str(tmp_path / "bad.json")).returncode == 0
    page = (tmp_path / "bad" / "report.html").read_text()
    assert "something that must be equal is not" in page and "17 of" in page


def test_bad_input(capsys):
    from samebits.bench.__main__ import main

    for arguments, message in (
        (["--shape", "8by8"], "the shape is '8by8'"),
        (["--contract", "nope"], "no such contract"),
        (["--layouts", "dp2"], "the layout is 'dp2'"),
        (["--experiments", "speed"], "the experiments are exactness"),
    ):
        assert main(arguments) == 2 and message in capsys.readouterr().err


def test_bad_reports(tmp_path, capsys):
    from samebits.report.__main__ import main

    for name, text, message in (
        ("none.json", None, "No such file"),
        ("text.json", "{", "Expecting"),
        ("other.json", '{"schema": "other/1"}', "its schema is 'other/1'"),
        ("list.json", "[]", "its schema is None"),
        ("empty.json", '{"schema": "samebits.report/1"}', "a report has command, contract, shape"),
    ):
        if text is not None:
            (tmp_path / name).write_text(text)
        assert main([str(tmp_path / name)]) == 2 and message in capsys.readouterr().err
